package supervisor

import (
	"context"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// maxWakeLines bounds how many jobs one inbox text names.
const maxWakeLines = 20

// news lists the jobs whose end or need the root was not told of.
func (s *Supervisor) news() []*store.Job {
	var list []*store.Job
	for _, j := range s.allJobs() {
		if j.Inbox == store.InboxNew && j.ParentJobID == "" {
			list = append(list, j)
		}
	}
	return list
}

// mayWake reports whether the root is idle and may be given a turn. With a
// terminal attached the person there decides when the next turn begins; the
// root is told in it.
func (s *Supervisor) mayWake(rec *store.Session) bool {
	c := s.snap.Coordination
	if rec.Client != nil || c.Wake != profile.WakeAuto || rec.Wakes >= c.MaxWakes { // the cap is noted when it is reached, in wake
		return false
	}
	s.mu.Lock()
	root := s.agents[rec.RootAgentRef]
	s.mu.Unlock()
	if root == nil || chanClosed(root.ended) {
		return false
	}
	run := root.snapshot()
	return rec.RootDone && run.ThreadID != "" && run.ActiveTurnID == ""
}

// wake starts one turn of the root that names the jobs. Until it is answered
// no other is started: the root is at work then.
func (s *Supervisor) wake(ctx context.Context, jobs []*store.Job) (bool, error) {
	root := s.rootAgent()
	text := inboxText("[inbox]", jobs)
	in := s.newInput(root.ref, "inbox", text)
	var failed error
	err := root.do(ctx, func(ctx context.Context) {
		failed = s.commit(ctx, func(tx *store.Tx, c *change) error {
			rec, err := tx.Session(s.session)
			if err != nil {
				return err
			}
			rec.Wakes++
			rec.RootDone, rec.RootOutcome, rec.Deferred, rec.DeferredJobs = false, "", false, nil
			if err := s.offer(tx, c, jobs); err != nil {
				return err
			}
			if limit := s.snap.Coordination.MaxWakes; rec.Wakes == limit {
				if err := s.audit(tx, "root_wakes_used_up", "", "supervisor", map[string]any{"max_wakes": limit}); err != nil {
					return err
				}
			}
			if err := s.audit(tx, "root_woken", "", "supervisor", map[string]any{"jobs": jobIDs(jobs), "input_id": in.InputID}); err != nil {
				return err
			}
			if err := tx.AppendInput(in); err != nil {
				return err
			}
			return c.putSession(tx, rec)
		})
		if failed == nil {
			root.step(func(ctx context.Context) error { return root.send(ctx, in) })
		}
	})
	if err != nil {
		return false, nil // the root is ending; whoever ends it goes on from there
	}
	return failed == nil, failed
}

// offer notes that the root is being told of jobs.
func (s *Supervisor) offer(tx *store.Tx, c *change, jobs []*store.Job) error {
	for _, j := range jobs {
		rec, err := tx.Job(j.JobID)
		if err != nil {
			return err
		}
		if rec.Inbox != store.InboxNew {
			continue
		}
		rec.Inbox = store.InboxOffered
		if err := c.noteJob(tx, rec); err != nil {
			return err
		}
	}
	return nil
}

func jobIDs(jobs []*store.Job) []string {
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.JobID)
	}
	return ids
}

// inboxText tells the root what waits for it: ids, states and what to call,
// never a worker's own words.
func inboxText(mark string, jobs []*store.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Your workers have news:\n", mark)
	for i, j := range jobs {
		if i == maxWakeLines {
			fmt.Fprintf(&b, "- and %d more; agent_status lists them\n", len(jobs)-i)
			break
		}
		fmt.Fprintf(&b, "- job %s (%s) is %s\n", j.JobID, j.Agent, j.Status)
	}
	b.WriteString("Read results with agent_result, see the others with agent_status, then go on with your task or finish it.")
	return b.String()
}

// tellCaller notes that an agent has been shown jobs whose end it was not told
// of. The answer does not wait for it.
func (s *Supervisor) tellCaller(call control.Call, caller access.Caller, jobs []control.JobView) {
	// Codex 0.149.0 does not say that a turn was interrupted under a call: the
	// answer to a call of another turn reaches nobody.
	if active := s.runNow(caller.AgentRef).ActiveTurnID; call.TurnID != "" && call.TurnID != active && !s.ambient() {
		return
	}
	var ids []string
	for _, v := range jobs {
		j, err := s.cachedJob(v.JobID)
		if err != nil || string(j.Status) != v.Status {
			continue // it has ended since the answer was made: that is news
		}
		if j.Inbox == store.InboxNew || j.Inbox == store.InboxOffered {
			ids = append(ids, v.JobID)
		}
	}
	if len(ids) == 0 || caller.Role == access.RoleOperator {
		return
	}
	s.wg.Go(func() {
		err := s.commit(s.life, func(tx *store.Tx, c *change) error {
			for _, id := range ids {
				j, err := tx.Job(id)
				if err != nil {
					return err
				}
				if j.Inbox != store.InboxNew && j.Inbox != store.InboxOffered {
					continue
				}
				j.Inbox = store.InboxRead
				if err := c.noteJob(tx, j); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && s.life.Err() == nil {
			s.log.Warn("noting what the root has read", "err", err)
		}
	})
}

// turnStarted notes the thread's running turn. One that a person started at a
// terminal is told what waits in the inbox.
func (a *agent) turnStarted(ctx context.Context, turn string) error {
	a.rec.ActiveTurnID = turn
	if err := a.save(ctx, nil); err != nil {
		return err
	}
	if err := a.activateGoal(ctx); err != nil {
		return err
	}
	if a.jobID != "" {
		return a.progress(ctx)
	}
	in, err := a.lastInput(ctx)
	if err != nil || in != nil && (in.State == store.InputSent || in.State == store.InputApplied) {
		return err
	}
	return a.steerInbox(ctx, turn)
}

// steerInbox adds the inbox to a turn that a person started.
func (a *agent) steerInbox(ctx context.Context, turn string) error {
	news := a.sup.news()
	if len(news) == 0 || a.sup.snap.Coordination.Wake == profile.WakeOff {
		return nil
	}
	err := a.sup.commit(ctx, func(tx *store.Tx, c *change) error {
		if err := a.sup.offer(tx, c, news); err != nil {
			return err
		}
		return a.sup.audit(tx, "root_told", "", "supervisor", map[string]any{"jobs": jobIDs(news), "turn_id": turn})
	})
	if err != nil {
		return err
	}
	c, cancel := short(ctx)
	defer cancel()
	// A turn that is over already takes no text; agent_status tells all the same.
	if _, err := a.host.Steer(c, a.steerRequest(turn, inboxText("[inbox]", news))); err != nil {
		return hostError("telling the root of its workers", err)
	}
	return nil
}

// turnOfPerson notes the end of a turn that no input of ours started.
func (a *agent) turnOfPerson(ctx context.Context, t endedTurn) error {
	a.rec.ActiveTurnID, a.rec.LastTurnID = "", t.id
	delete(a.lastText, t.id)
	if a.jobID != "" {
		return a.save(ctx, nil)
	}
	return a.save(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(a.sup.session)
		if err != nil || rec.Status.Terminal() {
			return err
		}
		rec.LastActiveAt, rec.RootDone = a.sup.cfg.now().UTC(), true
		return c.putSession(tx, rec)
	})
}

func (s *Supervisor) rootAgent() *agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[s.sess.RootAgentRef]
}

func (s *Supervisor) newInput(ref, origin, text string) *store.Input {
	return &store.Input{
		InputID: core.NewInputID(s.cfg.random()), SessionID: s.session, AgentRef: ref,
		Origin: origin, Text: text, State: store.InputIntended, CreatedAt: s.cfg.now().UTC(),
	}
}
