package profile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Value is one value of a resolved team and where it was said.
type Value struct {
	Key    string          `json:"key"` // agents.lead.model
	Value  json.RawMessage `json:"value"`
	Origin Origin          `json:"origin"` // its file: a path, default, or command line
}

// fromDefault is the origin of what no file says.
const fromDefault = "default"

// Resolve returns every value of a team that can be used, in the order of their
// keys, with its origin.
func Resolve(ctx context.Context, in *CompileInput) ([]Value, error) {
	c, err := compile(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(c.problems.List) > 0 {
		return nil, core.Errorf(core.KindValue, "profile %s can't be used:\n%w", in.Name, &c.problems)
	}
	raw, err := strictjson.Marshal(c.out)
	if err != nil {
		return nil, core.Errorf(core.KindValue, "profile %s can't be written as JSON: %w", in.Name, err)
	}
	var values []Value
	c.flatten(raw, nil, &values)
	slices.SortFunc(values, func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
	return values, nil
}

// flatten lists the leaves of a JSON object.
func (c *compiler) flatten(raw json.RawMessage, path []string, to *[]Value) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && object != nil {
		for key, sub := range object {
			c.flatten(sub, append(slices.Clone(path), key), to)
		}
		return
	}
	if len(path) > 0 && !derived[path[0]] {
		*to = append(*to, Value{Key: joinKey(path), Value: raw, Origin: c.originOf(path)})
	}
}

// derived are the parts of a snapshot that nobody writes.
var derived = map[string]bool{"gateway_hash": true, "agent_order": true, "files": true, "profile_warnings": true, "bindings": true}

// written maps the first keys of a snapshot to those of profile.toml, where they
// differ.
var written = map[string]string{"profile_id": "id", "profile_version": "version"}

// originOf finds where a value of the snapshot was said.
func (c *compiler) originOf(path []string) Origin {
	if len(path) == 3 && path[0] == "agents" && path[2] == "model" && c.out.Bindings[path[1]] != "" {
		return Origin{File: fromCommandLine}
	}
	t := c.team
	switch path[0] {
	case "routes", "models", "resources":
		t = c.catalog
	case "tool_mcp_servers":
		t = c.tools
	}
	if key, ok := written[path[0]]; ok {
		path = []string{key}
	}
	if len(path) == 3 && path[0] == "agents" && path[2] == "effort" {
		path = []string{path[0], path[1], "reasoning_effort"}
	}
	if at := t.at(path...); at != nil {
		return at.origin
	}
	if at := t.at(append(slices.Clone(path), "actions")...); at != nil { // of controls
		return at.origin
	}
	return Origin{File: fromDefault}
}
