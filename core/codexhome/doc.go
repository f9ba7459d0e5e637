// Package codexhome writes the CODEX_HOME of one agent role of one session:
// everything that Codex reads, generated, so that nothing of the operator's own
// Codex configuration takes part.
//
//	config.toml    model, provider, permission profiles, MCP server, features
//	models.json    the model catalogue: one entry, the role's model
//	AGENTS.md      the role's guidance from the snapshot
//
// No secret is in any of them: the gateway's bearer and the caller's token are
// named, and are in the environment of the app-server alone. Whatever a thread
// needs stands in config.toml, because fresh contexts and resumed threads take
// it from there.
package codexhome
