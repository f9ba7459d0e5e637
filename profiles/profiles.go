// Package profiles holds the bundled profiles: one folder each, named by the
// profile's id, compiled by core/profile; and what they share: catalog.toml, the
// first layer of every catalogue, and base_instructions.md, what a model is told
// that Codex has no instructions of its own for.
package profiles

import "embed"

// FS holds the folders of the bundled profiles, and what they share.
//
//go:embed catalog.toml base_instructions.md
//go:embed access-efficient-escalation-lab adaptive-engineering bounded-research-organization-lab
//go:embed codex-harness-team competing-implementations-lab high-confidence-debugging
//go:embed incident-hypothesis-triage offline-demo route-resilience-lab visual-engineering
var FS embed.FS
