// Package mcpserver is the MCP server that an agent's engine starts: it shows
// the agent the tools it may use and carries their calls to the session's
// supervisor over the control API.
//
// The process is a thin front. It keeps no state that matters, opens nothing
// but its standard streams and the control socket, and never ends because of
// what it reads: Codex does not start a dead MCP server again, so every later
// call of that thread would fail. It ends at the end of its input, when its
// context ends, or when its parent is gone, and then answers what is parked.
//
// Framing, JSON-RPC rules, the order of answers and argument checks are ours,
// because the stock stdio loops answer malformed frames, lose answers at the end
// of input and round large ids. Types, the tool registry and the handling of a
// well-formed message are mcp-go's.
package mcpserver
