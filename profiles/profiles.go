// Package profiles holds the bundled profiles: one folder each, named by the
// profile's id, compiled by core/profile.
package profiles

import "embed"

// FS holds the folders of the bundled profiles.
//
//go:embed offline-demo
var FS embed.FS
