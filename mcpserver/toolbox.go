package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// lookLimit bounds a call that only looks: a supervisor that hangs is reported,
// not waited for.
const lookLimit = 30 * time.Second

// tool is one tool as this caller sees it.
type tool struct {
	name        string
	title       string
	description string
	hints       hints
	schema      json.RawMessage
	limit       time.Duration // for the supervisor's answer
	starts      bool          // the call may begin the session of a client that leads
	parks       bool          // the call may be parked until something happens; limit does not count
	run         func(ctx context.Context, inv invocation) (any, error)

	once    sync.Once
	valid   *jsonschema.Schema
	invalid error
}

// hints are the four annotations of MCP. All four are always written: absent
// ones have defaults that differ between clients.
type hints struct {
	readOnly, destructive, idempotent, openWorld bool
}

// compiled returns the schema, compiled at its first use.
func (t *tool) compiled() (*jsonschema.Schema, error) {
	t.once.Do(func() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(t.schema))
		if err != nil {
			t.invalid = err
			return
		}
		compiler := jsonschema.NewCompiler()
		url := "mem:///" + t.name
		if t.invalid = compiler.AddResource(url, doc); t.invalid == nil {
			t.valid, t.invalid = compiler.Compile(url)
		}
	})
	return t.valid, t.invalid
}

// definition is the tool as mcp-go lists it.
func (t *tool) definition() mcp.Tool {
	return mcp.Tool{
		Name:           t.name,
		Description:    t.description,
		RawInputSchema: t.schema,
		Annotations: mcp.ToolAnnotation{
			Title:           t.title,
			ReadOnlyHint:    &t.hints.readOnly,
			DestructiveHint: &t.hints.destructive,
			IdempotentHint:  &t.hints.idempotent,
			OpenWorldHint:   &t.hints.openWorld,
		},
	}
}

// toolbox is the tools of the caller. It is filled when they are first asked
// for and never changes then: Codex ignores news of a changed list.
type toolbox struct {
	mu     sync.Mutex
	byName map[string]*tool
}

// load returns the caller's tools by name, asking the supervisor what the
// caller may do unless it has answered before.
func (b *toolbox) load(ctx context.Context, s *session) (map[string]*tool, error) {
	b.mu.Lock()
	known := b.byName
	b.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	caller, err := s.caller(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	if err := s.cfg.check(caller); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byName == nil {
		b.byName = s.register(toolsFor(caller))
	}
	return b.byName, nil
}

// register gives the tools to mcp-go.
func (s *session) register(tools []*tool) map[string]*tool {
	byName := make(map[string]*tool, len(tools))
	listed := make([]mcp.Tool, 0, len(tools))
	for _, t := range tools {
		byName[t.name] = t
		listed = append(listed, t.definition())
		s.mcp.AddTool(t.definition(), s.handler(t))
	}
	// The registry sorts by name; the supervisor's order says what comes first.
	server.WithToolFilter(func(_ context.Context, some []mcp.Tool) []mcp.Tool {
		if len(some) == len(listed) {
			return listed
		}
		return some
	})(s.mcp)
	return byName
}

// check compares what the token proves with what the environment claims.
func (c *Config) check(caller *control.CallerResponse) error {
	switch {
	case c.Lead != nil: // nothing is claimed
		return nil
	case c.SessionID != "" && caller.SessionID != c.SessionID:
		return core.Errorf(core.KindPermission, "invalid MCP caller capability: it belongs to session %q, not %q", caller.SessionID, c.SessionID)
	case c.Agent == "" || caller.Agent == c.Agent && caller.JobID == c.JobID:
		return nil
	case caller.Role == "root":
		return core.Errorf(core.KindPermission, "only the root role may use this capability, not agent %q", c.Agent)
	}
	return core.Errorf(core.KindPermission, "invalid MCP caller capability: it belongs to agent %q, not %q", caller.Agent, c.Agent)
}

// handler runs a tool for mcp-go. An error of the tool is a result that tells
// the model all there is to know.
func (s *session) handler(t *tool) server.ToolHandlerFunc {
	return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		inv := invocationOf(ctx)
		value, err := t.run(ctx, inv)
		if err != nil && t.parks && errors.Is(context.Cause(ctx), errDraining) {
			err = core.Errorf(core.KindUnavailable, "%w; nothing is lost", errDraining).WithRemedy("call again")
		}
		if err != nil {
			return inv.failed(s.explain(err)), nil
		}
		return inv.result(value)
	}
}
