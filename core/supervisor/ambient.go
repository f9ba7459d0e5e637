package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// An ambient session is led by an MCP client that is not ours: its root has no
// engine, no thread and no capacity here, only a role and an agent run that its
// jobs hang on. The client is known by the MCP process that it started, which
// joins the session and gets the root's capability in its memory.

// How long an ambient session is kept for a client to come back.
const (
	ambientDone  = 15 * time.Minute // when nothing is open in it: then it has completed
	ambientPause = 24 * time.Hour   // when something is: then it is paused, never removed
)

// RootCaller tells what the root of a team may do, before there is a session.
func RootCaller(snap *profile.Snapshot) *control.CallerResponse {
	caller := access.Caller{Role: access.RoleRoot, Agent: snap.RootAgent}
	return callerAnswer(snap, caller, toolsFor(snap, caller))
}

// ambient reports whether an MCP client that is not ours leads the session.
func (s *Supervisor) ambient() bool { return s.cachedSession().Kind == KindAmbient }

// errClientLeads answers what is asked of a root that is not ours.
func (s *Supervisor) errClientLeads() error {
	return core.Errorf(core.KindRuntime, "the root of session %s is the MCP client that leads it: there is no thread of ours to do that with", s.session).
		WithRemedy("do it in the client; its jobs are controlled with `codex-mmo job`, and `codex-mmo stop %s` ends the session", s.session)
}

// Join makes the calling process the client that leads an ambient session. The
// capability that it gets replaces every older one.
func (s *Supervisor) Join(ctx context.Context, call control.Call, r control.JoinRequest) (*control.JoinResponse, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbJoin)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec := s.cachedSession()
	switch {
	case rec.Kind != KindAmbient:
		return nil, core.Errorf(core.KindRuntime, "session %s is led by its own agent %s, not by an MCP client", s.session, rec.RootAgent)
	case rec.Client != nil && !identityOf(*rec.Client).Same(call.Peer.Process) && identityOf(*rec.Client).Alive():
		return nil, core.Errorf(core.KindRuntime, "session %s already has a live client (process %d)", s.session, rec.Client.PID).
			WithRemedy("end that client first, or begin a session of your own")
	}
	if s.resting() {
		back, err := s.takeUp(ctx, "")
		if err != nil {
			return nil, err
		}
		if err := s.bringUp(ctx, back); err != nil {
			return nil, err
		}
	}
	if err := s.joined(ctx, recordOf(call.Peer.Process), r.ClientName); err != nil {
		return nil, err
	}
	token, _, err := s.mintToken(ctx, rec.RootAgentRef, capCaller, 0)
	if err != nil {
		return nil, err
	}
	return &control.JoinResponse{Session: *s.SessionView(), Token: token}, nil
}

// joined records the client and watches it.
func (s *Supervisor) joined(ctx context.Context, client store.Process, name string) error {
	known := false
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if !rec.Status.Admitting() {
			return core.Errorf(core.KindRuntime, "session %s is %s", s.session, rec.Status)
		}
		known = rec.Client != nil && identityOf(*rec.Client).Same(identityOf(client))
		rec.Client, rec.ClientName, rec.ClientLeftAt = &client, name, nil
		if !known {
			rec.ClientThread = ""
		}
		if rec.Status.CanBecome(core.SessionRunning) {
			rec.Status = core.SessionRunning
		}
		rec.LastActiveAt = s.cfg.now().UTC()
		return s.audit(tx, "client_joined", "", "operator", map[string]any{"pid": client.PID, "client": name})
	})
	if err == nil && !known {
		s.watchClient()
	}
	return err
}

// beginAmbient makes a new ambient session ready: there is no root to start.
func (s *Supervisor) beginAmbient(ctx context.Context) error {
	return s.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
		if rec.Status != core.SessionStarting {
			return errUnchanged
		}
		now := s.cfg.now().UTC()
		rec.Status, rec.StartedAt = core.SessionRunning, &now
		return nil
	})
}

// clientCaller proves that a call with the root's capability comes from the
// process that joined, and says what its thread may do: the first one leads, and
// others of the same client look on.
func (s *Supervisor) clientCaller(ctx context.Context, call control.Call) (access.Caller, error) {
	rec := s.cachedSession()
	if rec.Client == nil || !identityOf(*rec.Client).Same(call.Peer.Process) {
		return access.Caller{}, core.Errorf(core.KindPermission, "invalid MCP caller capability: process %d is not the client of the session", call.Peer.PID)
	}
	run := s.runNow(rec.RootAgentRef)
	caller := s.agentCaller(&run)
	caller.ThreadID = call.ThreadID
	leading, err := s.leadingThread(ctx, rec, call.ThreadID)
	if err != nil {
		return access.Caller{}, err
	}
	if !leading {
		caller.Role, caller.Grants = access.RoleNative, access.Grants{WholeSession: true}
	}
	return caller, nil
}

// leadingThread reports whether a thread of the client leads the session. The
// first one that is named does, until another client joins.
func (s *Supervisor) leadingThread(ctx context.Context, rec *store.Session, thread string) (bool, error) {
	if thread == "" || thread == rec.ClientThread {
		return true, nil
	}
	if rec.ClientThread != "" {
		return false, nil
	}
	leads := false
	err := s.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
		leads = rec.ClientThread == "" || rec.ClientThread == thread
		if rec.ClientThread != "" {
			return errUnchanged
		}
		rec.ClientThread = thread
		return nil
	})
	return leads, err
}

// News tells an ambient root what waits for it, once: it has no turns of ours
// that could tell it.
func (s *Supervisor) News(ctx context.Context, call control.Call, _ control.NewsRequest) (*control.NewsResponse, error) {
	if _, err := s.admit(ctx, call, control.VerbNews, nil); err != nil {
		return nil, err
	}
	jobs := s.news()
	if !s.ambient() || len(jobs) == 0 || s.snap.Coordination.Wake == profile.WakeOff {
		return &control.NewsResponse{}, nil
	}
	err := s.commit(ctx, func(tx *store.Tx, c *change) error {
		if err := s.offer(tx, c, jobs); err != nil {
			return err
		}
		return s.audit(tx, "root_told", "", "supervisor", map[string]any{"jobs": jobIDs(jobs)})
	})
	if err != nil {
		return nil, err
	}
	return &control.NewsResponse{Text: inboxText("[inbox]", jobs)}, nil
}

// clientLeft notes within tx that the client of an ambient session has gone.
func (s *Supervisor) clientLeft(rec *store.Session) {
	now := s.cfg.now().UTC()
	rec.ClientLeftAt = &now
}

// watchAmbient ends an ambient session that nobody comes back to. The times are
// of the machine's uptime: a laptop that slept or a stepped clock ends nothing,
// and a new supervisor counts from its own start.
func (s *Supervisor) watchAmbient(ctx context.Context) {
	var due <-chan time.Time
	var pending time.Duration
	for {
		changed := s.changes()
		if wait := s.patience(); wait != pending {
			pending, due = wait, nil
			if wait > 0 {
				timer := time.NewTimer(wait)
				defer timer.Stop() // one for each change of mind, few in a session's life
				due = timer.C
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-due:
			due = nil
			if err := s.giveUpClient(ctx, pending); err != nil && ctx.Err() == nil {
				s.fatal(err)
				return
			}
		}
	}
}

// patience is how long the session waits for a client in its present state; 0:
// it has one, or waits for nothing.
func (s *Supervisor) patience() time.Duration {
	rec := s.cachedSession()
	switch {
	case rec.Client != nil || !rec.Status.Admitting():
		return 0
	case s.settled():
		return s.cfg.ambientDone()
	}
	return ambientPause
}

// settled reports whether nothing is open in the session: every job has ended,
// its result was read, and its patch was integrated or refused.
func (s *Supervisor) settled() bool {
	for _, j := range s.allJobs() {
		kept := j.Patch != nil && j.ResultState != core.ResultIntegrated && j.ResultState != core.ResultRejected
		if !j.Status.Terminal() || j.ResultState == core.ResultUnread || kept {
			return false
		}
	}
	return true
}

// giveUpClient completes a session in which nothing is open, and pauses any
// other, unless that has changed meanwhile.
func (s *Supervisor) giveUpClient(ctx context.Context, waited time.Duration) error {
	unlock, err := s.lockSession(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.patience() != waited {
		return nil
	}
	if s.settled() {
		return s.ending(func() error {
			return s.tearDown(ctx, core.SessionFinishing, core.SessionCompleted, endOf(core.SessionCompleted), nil)
		})
	}
	if err := s.beginPause(ctx); err != nil {
		return err
	}
	if err := s.finishPause(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	s.leaveAfterVerb()
	return nil
}

// FindAmbient lists the ambient sessions of a team in a workspace that a client
// may go on with: they are not over, and their last client is dead. The newest
// is first.
func FindAmbient(tx *store.Tx, workspace, profileID string) ([]*store.Session, error) {
	list, err := tx.Sessions(store.SessionFilter{Statuses: core.OpenSessions(), Workspace: workspace})
	if err != nil {
		return nil, err
	}
	var found []*store.Session
	for _, rec := range list {
		if rec.Kind != KindAmbient || rec.ProfileID != profileID || !joinable(rec) {
			continue
		}
		found = append(found, rec)
	}
	slices.SortFunc(found, func(a, b *store.Session) int { return b.LastActiveAt.Compare(a.LastActiveAt) })
	return found, nil
}

// joinable reports whether a client may take the session up.
func joinable(rec *store.Session) bool {
	if rec.Status.Terminal() || rec.Status == core.SessionFinishing || rec.Status == core.SessionCancelling {
		return false
	}
	return rec.Client == nil || !identityOf(*rec.Client).Alive()
}

// selfRecord is this process as a record's client.
func selfRecord() (*store.Process, error) {
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	rec := recordOf(self)
	return &rec, nil
}
