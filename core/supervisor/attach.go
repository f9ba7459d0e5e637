package supervisor

import (
	"cmp"
	"context"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Kinds of session.
const (
	kindInteractive    = "interactive"
	kindNoninteractive = "noninteractive"
	KindAmbient        = "ambient" // an MCP client that is not ours leads
)

// Attach tells a terminal how to reach the root's thread, and records the
// terminal once it runs: while it lives, the session is `running`; when it has
// ended, `detached`, and all work goes on.
func (s *Supervisor) Attach(ctx context.Context, call control.Call, r control.AttachRequest) (*control.AttachResponse, error) {
	if _, err := s.admit(ctx, call, control.VerbAttach, nil); err != nil {
		return nil, err
	}
	if s.ambient() {
		return nil, s.errClientLeads()
	}
	run, err := s.awaitRootThread(ctx)
	if err != nil {
		return nil, err
	}
	var handle hostpb.Handle
	if err := proto.Unmarshal(run.Handle, &handle); err != nil {
		return nil, core.Errorf(core.KindRuntime, "reading the root's handle: %w", err)
	}
	home := filepath.Join(s.cfg.Folders.SessionDir(s.session), "homes", "terminal")
	if err := folders.MakeDir(home); err != nil {
		return nil, err
	}
	if r.PID != 0 {
		if err := s.attached(ctx, r.PID); err != nil {
			return nil, err
		}
	}
	return &control.AttachResponse{
		Session: *s.SessionView(), Socket: handle.GetSocketPath(), ThreadID: run.ThreadID,
		CodexPath: s.cachedSession().Codex.Path, Home: home,
	}, nil
}

// awaitRootThread waits until the root has a thread that others can open.
func (s *Supervisor) awaitRootThread(ctx context.Context) (*store.AgentRun, error) {
	for {
		changed := s.changes()
		rec := s.cachedSession()
		if !rec.Status.Admitting() && rec.Status != core.SessionStarting {
			return nil, core.Errorf(core.KindRuntime, "session %s is %s: no terminal can be attached", s.session, rec.Status).
				WithRemedy("see `codex-mmo status %s`", s.session)
		}
		root := s.rootAgent()
		if root == nil || chanClosed(root.ended) {
			return nil, core.Errorf(core.KindRuntime, "the root of session %s does not work: %s", s.session, cmp.Or(rec.Error, "it has ended")).
				WithRemedy("see `codex-mmo status %s`", s.session)
		}
		if run := root.snapshot(); run.ThreadID != "" && len(run.Handle) > 0 && rec.Status != core.SessionStarting {
			return &run, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// attached records a terminal and watches it. One at a time is recorded; a
// second one may look on.
func (s *Supervisor) attached(ctx context.Context, pid int) error {
	id, err := process.Lookup(pid)
	if err != nil {
		return core.Errorf(core.KindValue, "no process %d: %w", pid, err)
	}
	mine := recordOf(id)
	err = s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if !rec.Status.Admitting() {
			return core.Errorf(core.KindRuntime, "session %s is %s meanwhile", s.session, rec.Status)
		}
		if rec.Client != nil && identityOf(*rec.Client).Alive() {
			return errUnchanged
		}
		rec.Client, rec.Status = &mine, core.SessionRunning
		return s.audit(tx, "terminal_attached", "", "operator", map[string]any{"pid": pid})
	})
	if err != nil {
		return err
	}
	s.watchClient()
	return nil
}

// watchClient detaches the session when its terminal, or its MCP client, has
// ended.
func (s *Supervisor) watchClient() {
	client := s.cachedSession().Client
	if client == nil {
		return
	}
	s.wg.Go(func() {
		if err := awaitEnd(s.life, identityOf(*client)); err != nil {
			return // we leave first
		}
		err := s.updateSession(s.life, func(tx *store.Tx, rec *store.Session) error {
			if rec.Client == nil || !identityOf(*rec.Client).Same(identityOf(*client)) { // as others saw it, it may have more to it
				return errUnchanged
			}
			rec.Client = nil
			if rec.Status == core.SessionRunning {
				rec.Status = core.SessionDetached
			}
			event := "terminal_detached"
			if rec.Kind == KindAmbient {
				event = "client_left"
				s.clientLeft(rec)
			}
			return s.audit(tx, event, "", "supervisor", nil)
		})
		if err != nil && s.life.Err() == nil {
			s.fatal(err)
		}
	})
}
