package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Slots. Waits are parked for minutes, so they have their own: no number of
// them delays another call.
const (
	maxParked  = 64
	maxWorking = 16
)

// maxFaults bounds how many faults of one call's arguments are named.
const maxFaults = 5

// invocation is what a tool's handler gets besides its context. It travels in
// the context, because mcp-go's own request has lost the exact arguments.
type invocation struct {
	arguments json.RawMessage // checked against the tool's schema
	meta      control.Meta
	client    clientLimits
	control   *control.Client // of the session's supervisor
	notice    string          // to be told before the result; may be empty
}

type invocationKey struct{}

func invocationOf(ctx context.Context) invocation {
	inv, _ := ctx.Value(invocationKey{}).(invocation)
	return inv
}

// startCall runs a tools/call in its own goroutine, so that the next frame is
// read at once.
func (s *session) startCall(ctx context.Context, m *message) {
	ctx, cancel := context.WithCancelCause(ctx)
	call := &inFlight{cancel: cancel}
	key := idKey(m.id)
	s.mu.Lock()
	full := len(s.inFlight) >= maxInFlight
	if !full {
		s.inFlight[key] = call
	}
	client := s.client
	s.mu.Unlock()
	if full {
		cancel(nil)
		s.out.fail(m.id, invalidRequest(fmt.Sprintf("%d calls are in flight already", maxInFlight)))
		return
	}
	s.calls.Go(func() {
		defer cancel(nil)
		result, fault := s.call(ctx, m.params, client)
		s.mu.Lock()
		delete(s.inFlight, key)
		cancelled := call.cancelled
		s.mu.Unlock()
		switch {
		case cancelled: // the client forgot the request; an answer would confuse it
		case fault != nil:
			s.out.fail(m.id, fault)
		default:
			s.out.result(m.id, result)
		}
	})
}

// call checks the parameters of a tools/call and runs the tool.
func (s *session) call(ctx context.Context, params json.RawMessage, client clientLimits) (json.RawMessage, *rpcError) {
	fields := objectFields(params)
	name, ok := stringField(fields, "name")
	if !ok {
		return nil, invalidParams("name must be a string")
	}
	tools, err := s.tools.load(ctx, s)
	if err != nil {
		return s.toolError(err), nil
	}
	t := tools[name]
	if t == nil {
		return nil, invalidParams(fmt.Sprintf("unknown tool %q", name))
	}
	arguments, fault := t.check(fields["arguments"])
	if fault != nil {
		return nil, fault
	}
	meta, fault := metaOf(fields["_meta"])
	if fault != nil {
		return nil, fault
	}
	release, err := s.slot(ctx, t.parks)
	if err != nil {
		return s.toolError(err), nil
	}
	defer release()
	peer, notice, err := s.supervisor(ctx, t, meta)
	if err != nil {
		return s.toolError(s.explain(err)), nil
	}
	ctx, cancel := s.bound(ctx, t)
	defer cancel()
	ctx = context.WithValue(ctx, invocationKey{}, invocation{arguments, meta, client, peer, notice})
	return s.dispatch(ctx, "tools/call", map[string]any{"name": name, "arguments": arguments})
}

// slot waits for room. A wait does not queue: behind others it could be parked
// for longer than its own timeout.
func (s *session) slot(ctx context.Context, parks bool) (release func(), err error) {
	if parks {
		select {
		case s.parked <- struct{}{}:
			return func() { <-s.parked }, nil
		default:
			return nil, core.Errorf(core.KindRuntime, "%d calls of agents_wait are parked already", maxParked).
				WithRemedy("wait for several jobs in one call")
		}
	}
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// bound ends a wait when the session drains, and any other call when the
// supervisor has hung for too long; a wait has its own timeout.
func (s *session) bound(ctx context.Context, t *tool) (context.Context, context.CancelFunc) {
	if !t.parks {
		return context.WithTimeout(ctx, t.limit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.draining, func() { cancel(errDraining) })
	return ctx, func() { stop(); cancel(nil) }
}

// check validates arguments against the tool's schema. Absent arguments are an
// empty object.
func (t *tool) check(arguments json.RawMessage) (json.RawMessage, *rpcError) {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	schema, err := t.compiled()
	if err != nil {
		return nil, &rpcError{codeInternal, "internal error", "the schema of the tool does not compile"}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return nil, invalidArguments("they are not JSON")
	}
	err = schema.Validate(value)
	var faults *jsonschema.ValidationError
	switch {
	case errors.As(err, &faults):
		return nil, invalidArguments(describe(faults))
	case err != nil:
		return nil, invalidArguments("they can't be checked")
	}
	return arguments, nil
}

func invalidArguments(text string) *rpcError {
	return invalidParams("invalid tool arguments: " + text)
}

// describe names what is wrong with arguments, for a model to mend it.
func describe(faults *jsonschema.ValidationError) string {
	var texts []string
	for _, unit := range faults.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		text := unit.Error.String()
		if place := strings.TrimPrefix(unit.InstanceLocation, "/"); place != "" {
			text = place + ": " + text
		}
		texts = append(texts, text)
	}
	slices.Sort(texts) // the validator walks a map
	if more := len(texts) - maxFaults; more > 0 {
		texts = append(texts[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// metaOf reads what Codex says about where a call comes from. Fields of another
// type count as absent: other clients may use the same names for other things.
func metaOf(raw json.RawMessage) (control.Meta, *rpcError) {
	fields := objectFields(raw)
	var m control.Meta
	m.ThreadID, _ = stringField(fields, "threadId")
	m.CallID, _ = stringField(fields, "callId")
	m.RequestKey, _ = stringField(fields, "request_key")
	m.TurnID, _ = stringField(objectFields(fields["x-codex-turn-metadata"]), "turn_id")
	for name, value := range map[string]string{
		"threadId": m.ThreadID, "callId": m.CallID, "request_key": m.RequestKey, "turn_id": m.TurnID,
	} {
		if !control.ValidMeta(value) {
			return control.Meta{}, invalidParams(fmt.Sprintf("_meta %s must be at most %d printable ASCII characters without spaces", name, control.MaxMeta))
		}
	}
	return m, nil
}

// clientLimits is how long a client lets a call take, as far as it is known.
type clientLimits struct {
	defaultWait time.Duration
	longestWait time.Duration
}

// codexClient is the name that Codex gives itself in initialize (0.149.0 and
// 0.171.0). Homes of ours give it a tool timeout of 1230 s; its own is 300 s.
const codexClient = "codex-mcp-client"

func (c *Config) limitsOf(client string) clientLimits {
	switch {
	case client == codexClient && c.Lead == nil:
		return clientLimits{defaultWait: 240 * time.Second, longestWait: 1200 * time.Second}
	case client == codexClient: // by a person's own configuration
		return clientLimits{defaultWait: 240 * time.Second, longestWait: 240 * time.Second}
	}
	// Clients made with the TypeScript SDK give up after 60 s.
	return clientLimits{defaultWait: 50 * time.Second, longestWait: 50 * time.Second}
}
