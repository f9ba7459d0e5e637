package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Lead finds or starts the session that a client leads as its root.
type Lead interface {
	// Caller tells what the root of the team may do. It starts nothing.
	Caller(ctx context.Context) (*control.CallerResponse, error)
	// Join makes this process the client of a session that waits for one, or of a
	// new one when there is none and start is set. It returns nil when there is
	// none, and what the model is to be told, which may be empty. client is what
	// the client calls itself.
	Join(ctx context.Context, client string, start bool) (*control.Client, string, error)
}

// caller asks what the client may do.
func (s *session) caller(ctx context.Context) (*control.CallerResponse, error) {
	if s.cfg.Lead != nil {
		return s.cfg.Lead.Caller(ctx)
	}
	return s.cfg.Client.Caller(ctx, control.Meta{})
}

// supervisor returns the supervisor that a call of t is for. A client that leads
// gets its session at its first call, and a new one only by a tool that changes
// something; what waits for it comes at the head of an answer, because it has no
// turns of ours.
func (s *session) supervisor(ctx context.Context, t *tool, meta control.Meta) (*control.Client, string, error) {
	if s.cfg.Lead == nil {
		return s.cfg.Client, "", nil
	}
	s.joining.Lock()
	defer s.joining.Unlock()
	if s.cfg.Client != nil {
		switch news, err := s.cfg.Client.News(ctx, meta); {
		case err == nil:
			return s.cfg.Client, news.Text, nil
		case !errors.Is(err, control.ErrUnreachable):
			return s.cfg.Client, "", nil // the call itself is told why
		}
		s.cfg.Client = nil // the session has ended, or nobody keeps it
	}
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	client, notice, err := s.cfg.Lead.Join(ctx, name, t.starts)
	switch {
	case err != nil:
		return nil, "", err
	case client == nil:
		return nil, "", core.Errorf(core.KindNotFound, "your team has no session yet: nothing was delegated").
			WithRemedy("agent_spawn starts one")
	}
	s.cfg.Client = client
	return client, notice, nil
}

// told puts the notice of a call before its result.
func (inv invocation) told(value json.RawMessage) json.RawMessage {
	if inv.notice == "" || len(value) < 2 || value[0] != '{' {
		return value
	}
	notice, _ := json.Marshal(map[string]string{"notice": inv.notice}) // a string
	if string(value) == "{}" {
		return notice
	}
	return append(append(notice[:len(notice)-1], ','), value[1:]...)
}
