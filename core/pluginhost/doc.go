// Package pluginhost starts plugins, finds them again after a restart, and
// ends them.
//
// A plugin is a process of its own: it has its own session, logs to its own
// file and lives on when its starter dies. What is kept of it is a Ref; Adopt
// turns a Ref into a connection only after it proved that the very process
// answers. go-plugin does the handshake of a start and nothing else: its
// clients poll, and its Kill leaves descendants behind.
package pluginhost
