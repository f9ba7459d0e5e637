// Package hostplugin is the bundled host: the plugin that drives one agent's
// Codex app-server for a supervisor.
//
// It starts the app-server, speaks its protocol, writes every event to a spool
// before it sends it, and applies each command once. It decides nothing: it
// knows no profile, admission or contract. Its one invariant: an input whose
// command id it has seen is never sent to the engine a second time, not even
// by the host that replaces it.
//
//	Launch ── process.Start ──> app-server
//	Open, Recover ── appserver.Connect ──> frames ──> spool ──> Events
//	StartTurn … ── journal ── spool ── frame
//	Stop ── interrupt ── process.Retire
//
// The host outlives its supervisor, the app-server outlives its host.
package hostplugin
