// Package codexhome writes the CODEX_HOME of one agent role of one session:
// everything that Codex reads, generated, so that nothing of the operator's own
// Codex configuration takes part.
//
//	config.toml                           model, provider, permission profiles, MCP servers, features
//	models.json                           the model catalogue: the role's model and its native agents'
//	AGENTS.md                             the role's guidance from the snapshot, the team's skill if it delegates, and its contract
//	skills/team-orchestration/SKILL.md    that skill as a file, as it was written
//	agents/<id>.toml                      a native agent's role
//	auth.json                             link to the operator's login, of roles on a ChatGPT route
//
// No secret is in any of them: the gateway's bearer and the caller's token are
// named, and are in the environment of the app-server alone, as are the secrets
// of tool servers and of routes that Codex reaches by itself. Whatever a thread
// needs stands in config.toml, because fresh contexts and resumed threads take
// it from there.
package codexhome
