package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// maxToolName is the longest name of a function that OpenAI and Anthropic
// take, in bytes.
const maxToolName = 64

// toolRef is a tool as Codex names it.
type toolRef struct {
	namespace string // empty: none
	name      string
	custom    bool // its input is freeform text, wrapped as {"input": …}
	search    bool // Codex's own search for tools
	answer    bool // no tool of Codex: its input is the answer as JSON
}

// Tools maps the names of one request's tools: Codex has namespaces, the
// other wires have flat names of at most 64 bytes. The names must come
// back to Codex as name and namespace, else it says "unsupported call".
type Tools struct {
	byFlat map[string]toolRef // name on the wire -> tool
	byRef  map[string]string  // namespace + NUL + name -> name on the wire
	loose  map[string]string  // near-miss spelling -> name on the wire; "" when ambiguous
}

func newTools() *Tools {
	return &Tools{byFlat: map[string]toolRef{}, byRef: map[string]string{}, loose: map[string]string{}}
}

// add gives a tool its name on the wire.
func (t *Tools) add(ref toolRef) string {
	full := joinName(ref.namespace, ref.name)
	flat := wireName(full)
	for n := 2; ; n++ {
		old, taken := t.byFlat[flat]
		if !taken || old == ref {
			break
		}
		flat = shorten(legal(full), fmt.Sprintf("%s#%d", full, n))
	}
	t.byFlat[flat] = ref
	t.byRef[ref.namespace+"\x00"+ref.name] = flat
	if ref.namespace != "" {
		short := strings.TrimPrefix(ref.namespace, "mcp__")
		for _, near := range []string{
			full, ref.namespace + "." + ref.name, short + "__" + ref.name, short + "." + ref.name, ref.name,
		} {
			t.addLoose(near, flat)
		}
	}
	return flat
}

func (t *Tools) addLoose(near, flat string) {
	if old, ok := t.loose[near]; ok && old != flat {
		flat = ""
	}
	t.loose[near] = flat
}

// wire returns the name on the wire of a tool in the history, which may not
// be declared any more.
func (t *Tools) wire(namespace, name string) string {
	if flat, ok := t.byRef[namespace+"\x00"+name]; ok {
		return flat
	}
	return wireName(joinName(namespace, name))
}

// resolve returns the tool that a model means. Names that nearly fit are taken
// when they fit one tool only, and never in place of a real one.
func (t *Tools) resolve(flat string) toolRef {
	if ref, ok := t.byFlat[flat]; ok {
		return ref
	}
	if near := t.loose[flat]; near != "" {
		return t.byFlat[near]
	}
	return toolRef{name: flat}
}

func joinName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// wireName makes a name that every provider takes.
func wireName(full string) string {
	name := legal(full)
	if name != full || len(name) > maxToolName || name == "" {
		return shorten(name, full)
	}
	return name
}

func legal(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

// shorten cuts a name and adds a hash of the full one, so that different names
// stay different.
func shorten(name, full string) string {
	sum := sha256.Sum256([]byte(full))
	const tail = 9 // "_" and 8 hex digits
	if len(name) > maxToolName-tail {
		name = name[:maxToolName-tail]
	}
	return name + "_" + hex.EncodeToString(sum[:4])
}

var noParameters = json.RawMessage(`{"type":"object","properties":{}}`)

var inputParameters = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool as text."}},"required":["input"],"additionalProperties":false}`)

// declare turns the tools of a request into functions. What the wire can't
// carry is named in dropped.
func (t *Tools) declare(tools []responses.Tool) (out []chat.Tool, dropped []string) {
	for _, tool := range tools {
		if tool.Type != "namespace" {
			out, dropped = t.declareOne(out, dropped, "", tool)
			continue
		}
		for _, member := range tool.Tools {
			out, dropped = t.declareOne(out, dropped, tool.Name, member)
		}
	}
	return out, dropped
}

func (t *Tools) declareOne(out []chat.Tool, dropped []string, namespace string, tool responses.Tool) ([]chat.Tool, []string) {
	if tool.Type == "tool_search" {
		tool.Name = searchTool
	}
	if _, known := t.byRef[namespace+"\x00"+tool.Name]; known {
		return out, dropped // an item of the conversation brings it again
	}
	f, ok := t.function(namespace, tool)
	if !ok {
		return out, append(dropped, "tools."+bounded(tool.Type))
	}
	return append(out, f), dropped
}

func (t *Tools) function(namespace string, tool responses.Tool) (chat.Tool, bool) {
	f := chat.ToolFunction{Description: tool.Description, Parameters: tool.Parameters, Strict: tool.Strict}
	switch tool.Type {
	case "function":
		if len(f.Parameters) == 0 || string(f.Parameters) == "null" {
			f.Parameters, f.Strict = noParameters, false
		}
	case "tool_search":
		if tool.Execution != "client" {
			return chat.Tool{}, false // the provider would have to do it
		}
		if len(f.Parameters) == 0 || string(f.Parameters) == "null" {
			f.Parameters = noParameters
		}
		f.Strict = false
	case "custom":
		f.Parameters, f.Strict = inputParameters, false
		if tool.Format != nil && tool.Format.Definition != "" {
			f.Description += fmt.Sprintf("\n\nThe text in \"input\" must follow this %s grammar:\n%s", tool.Format.Syntax, tool.Format.Definition)
		}
	default:
		return chat.Tool{}, false
	}
	f.Name = t.add(toolRef{namespace: namespace, name: tool.Name, custom: tool.Type == "custom", search: tool.Type == "tool_search"})
	return chat.Tool{Type: "function", Function: f}, true
}
