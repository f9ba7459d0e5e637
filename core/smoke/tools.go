package smoke

import (
	"io"
	"maps"
	"slices"
	"strings"
)

// bridgePrefix begins the names of tools that reach a model over the bridge for
// gateways without namespaces: mmo_mcp__<server>__<tool>.
const bridgePrefix = "mmo_mcp__"

// SuccessfulTools returns the MCP tools, as "server.tool", that were called with
// success, sorted. events is an event log: rows of `codex exec` or of the
// app-server, bare or as a session keeps them. A call over the bridge counts
// for that one of required whose bridged name it has.
func SuccessfulTools(events io.Reader, required []string) ([]string, error) {
	aliases := map[string]string{} // bridged name -> server.tool
	for _, tool := range required {
		aliases[bridged(tool)] = tool
	}
	found := map[string]bool{}
	err := eachLine(events, func(row object) {
		if tool := successful(row, aliases); tool != "" {
			found[tool] = true
		}
	})
	return slices.Sorted(maps.Keys(found)), err
}

// successful returns the tool of a row that ends a call with success, else "".
func successful(row object, aliases map[string]string) string {
	var item object
	switch {
	case row.text("type") == "item.completed":
		item = row.object("item")
	case row.text("method") == "item/completed":
		item = row.object("params").object("item")
	}
	if item.text("status") != "completed" {
		return ""
	}
	switch item.text("type") {
	case "mcp_tool_call", "mcpToolCall":
		server, tool := item.text("server"), item.text("tool")
		if failed := item["error"]; len(failed) > 0 && string(failed) != "null" || server == "" || tool == "" {
			return ""
		}
		return server + "." + tool
	case "dynamicToolCall":
		if string(item["success"]) == "true" {
			return aliases[item.text("tool")]
		}
	}
	return ""
}

// bridged is the name of "server.tool" over the bridge. A server's name may
// hold dots itself.
func bridged(tool string) string {
	server, name := "", tool
	if i := strings.LastIndexByte(tool, '.'); i >= 0 {
		server, name = tool[:i], tool[i+1:]
	}
	return bridgePrefix + plain(server) + "__" + plain(name)
}

// plain replaces what a tool's name may not hold.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}
