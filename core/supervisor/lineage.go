package supervisor

import (
	"context"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// Why a thread became the root.
const (
	lineageInitial = "initial"
	lineageFresh   = "fresh_context" // started by a person in the attached screen
)

// bindRoot records the root's first thread.
func (s *Supervisor) bindRoot(rec *store.Session, thread string) {
	if rec.ThreadID != "" || thread == "" {
		return
	}
	rec.RootThread = store.RootThread{ThreadID: thread, Generation: 1, Lineage: []store.LineageEntry{{
		Generation: 1, ThreadID: thread, CodexSessionID: thread, AdoptedAt: s.cfg.now().UTC(), Reason: lineageInitial,
	}}}
}

// freshThread is a thread that the engine says has begun.
type freshThread struct {
	ID         string `json:"id"`
	SessionID  string `json:"sessionId"`
	ParentID   string `json:"parentThreadId"`
	Role       string `json:"agentRole"`
	Nickname   string `json:"agentNickname"`
	ForkedFrom string `json:"forkedFromId"`
	Ephemeral  bool   `json:"ephemeral"`
	Cwd        string `json:"cwd"`
}

// mayFollow reports whether a thread may become the root in place of the present
// one: a person began it at the top level, in the session's folder. A native
// child, a fork and a throw-away thread never do.
func (t *freshThread) mayFollow(rec *store.Session) bool {
	if t.ID == "" || t.ID == rec.ThreadID || t.ParentID != "" || t.Role != "" || t.Nickname != "" || t.ForkedFrom != "" || t.Ephemeral {
		return false
	}
	for _, e := range rec.Lineage {
		if e.ThreadID == t.ID {
			return false
		}
	}
	return t.Cwd == rec.Workspace
}

// adoptFresh makes a thread that a person began in the attached screen the root:
// the change is staged first and committed second, so that a crash between the
// two is followed by the second. It reports whether the root changed.
func (a *agent) adoptFresh(ctx context.Context, t *freshThread) (bool, error) {
	s := a.sup
	if a.jobID != "" {
		return false, nil
	}
	rec := s.cachedSession()
	staged := rec.Transition != nil && rec.Transition.ToThreadID == t.ID
	if rec.Transition != nil && !staged || rec.Status.Terminal() || !t.mayFollow(rec) {
		return false, nil
	}
	if starting, err := a.turnStarting(ctx); err != nil || starting {
		return false, err
	}
	if !staged {
		if rec.Client == nil || !identityOf(*rec.Client).Alive() {
			return false, nil
		}
		if err := s.stageFresh(ctx, t.ID); err != nil {
			return false, err
		}
	}
	return true, a.commitFresh(ctx, t)
}

// turnStarting reports whether an input of ours is on its way to the thread.
func (a *agent) turnStarting(ctx context.Context) (bool, error) {
	in, err := a.lastInput(ctx)
	return in != nil && (in.State == store.InputIntended || in.State == store.InputSent), err
}

func (s *Supervisor) stageFresh(ctx context.Context, thread string) error {
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Transition = &store.ThreadTransition{
			FromThreadID: rec.ThreadID, ToThreadID: thread, Generation: rec.Generation + 1, ObservedAt: s.cfg.now().UTC(), Reason: lineageFresh,
		}
		return nil
	})
}

// commitFresh makes the staged thread the root.
func (a *agent) commitFresh(ctx context.Context, t *freshThread) error {
	s := a.sup
	now := s.cfg.now().UTC()
	a.rec.ThreadID, a.rec.ActiveTurnID, a.rec.Pending = t.ID, "", nil
	err := a.save(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(s.session)
		if err != nil || rec.Status.Terminal() || rec.Transition == nil || rec.Transition.ToThreadID != t.ID {
			return err
		}
		last := &rec.Lineage[len(rec.Lineage)-1]
		last.SupersededAt, last.SuccessorThreadID = &now, t.ID
		rec.Lineage = append(rec.Lineage, store.LineageEntry{
			Generation: rec.Generation + 1, ThreadID: t.ID, CodexSessionID: firstOf(t.SessionID, t.ID), AdoptedAt: now, Reason: rec.Transition.Reason,
		})
		rec.ThreadID, rec.Generation, rec.Transition = t.ID, rec.Generation+1, nil
		rec.RootDone, rec.RootOutcome = false, ""
		err = s.audit(tx, "root_thread_adopted", "", "supervisor", map[string]any{"thread_id": t.ID, "generation": rec.Generation})
		if err != nil {
			return err
		}
		return c.putSession(tx, rec)
	})
	if err != nil {
		return err
	}
	a.follow("notice", "a fresh context is the root now")
	return nil
}
