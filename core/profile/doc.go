// Package profile compiles a profile, the TOML package that names a team, into
// a Snapshot: the immutable, content-hashed form that a session uses for its
// whole life, whatever becomes of the profile's own files.
//
// A profile is a folder:
//
//	profile.toml     who is in the team and what each may do
//	catalog.toml     the routes and models the team uses
//	guidance/*.md    what each agent is told
//
// It is found by id, in the user's configuration before the bundled ones, or
// by the path of its folder. Every key is known or an error that names the
// file, the line and the key.
package profile
