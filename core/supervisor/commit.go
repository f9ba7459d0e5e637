package supervisor

import (
	"context"
	"errors"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// change collects what a transaction changed, to be published once it is
// committed.
type change struct {
	session *store.Session
	jobs    []*store.Job
	before  func() // runs once it is committed, before anybody is woken; may be nil
	wake    bool   // wake those who wait for a change, even without one above
}

// putSession writes the session's record and notes the change.
func (c *change) putSession(tx *store.Tx, s *store.Session) error {
	if err := tx.PutSession(s); err != nil {
		return err
	}
	c.session = s
	return nil
}

// putJob writes a job's record under its next revision and notes the change.
func (c *change) putJob(tx *store.Tx, j *store.Job) error {
	j.Revision++
	if err := tx.PutJob(j); err != nil {
		return err
	}
	c.jobs = append(c.jobs, j)
	return nil
}

// noteJob writes what changes nothing for those who wait for the job: its
// revision stays.
func (c *change) noteJob(tx *store.Tx, j *store.Job) error {
	if err := tx.PutJob(j); err != nil {
		return err
	}
	c.jobs = append(c.jobs, j)
	return nil
}

// waking is what a commit does besides when it only has to be seen.
func waking(_ *store.Tx, c *change) error {
	c.wake = true
	return nil
}

// commit runs fn in one transaction that is fenced by this supervisor's epoch,
// then updates the caches and wakes everybody who waits for a change. fn must
// do no I/O of its own: the transaction holds the store's write queue.
func (s *Supervisor) commit(ctx context.Context, fn func(tx *store.Tx, c *change) error) error {
	// One at a time, up to the caches: what is published later is newer.
	s.committing.Lock()
	defer s.committing.Unlock()
	var c change
	err := s.store.UpdateAs(ctx, s.session, s.epoch, func(tx *store.Tx) error {
		c = change{}
		return fn(tx, &c)
	})
	if err != nil {
		return recordFailure(err)
	}
	s.publish(&c)
	return nil
}

// recordError is the failure to write a record. It is not the failure of what
// the record is about: the supervisor ends, and the next one goes on from what
// was written.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

func recordFailure(err error) error {
	if errors.Is(err, store.ErrTakenOver) || core.KindOf(err) == core.KindOS {
		return recordError{err}
	}
	return err
}

func (s *Supervisor) publish(c *change) {
	if c.before != nil {
		c.before() // what they look at next is what was committed
	}
	if c.session == nil && len(c.jobs) == 0 && !c.wake {
		return
	}
	s.mu.Lock()
	if c.session != nil {
		copied := *c.session
		s.sess = &copied
	}
	for _, j := range c.jobs {
		copied := *j
		s.jobs[j.JobID] = &copied // commits are published in their order
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()

	if c.session != nil {
		s.hub.session(s.SessionView())
	}
	for _, j := range c.jobs {
		s.hub.job(j)
	}
}

// view reads the store. A read that fails says nothing of what is read: like a
// failed write it ends the supervisor, not the agent.
func (s *Supervisor) view(ctx context.Context, fn func(*store.Tx) error) error {
	return recordFailure(s.store.View(ctx, fn))
}

// changes returns a channel that is closed at the next published change.
// Take it before reading the state that decides whether to wait.
func (s *Supervisor) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// updateJob changes one job in a transaction of its own.
func (s *Supervisor) updateJob(ctx context.Context, id string, fn func(tx *store.Tx, j *store.Job) error) error {
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		if err := fn(tx, j); err != nil {
			if errors.Is(err, errUnchanged) {
				return nil
			}
			return err
		}
		return c.putJob(tx, j)
	})
}

// errUnchanged makes updateJob leave the record as it is.
var errUnchanged = errors.New("unchanged")

// noteJob changes one job without a new revision.
func (s *Supervisor) noteJob(ctx context.Context, id string, fn func(*store.Job)) error {
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		fn(j)
		return c.noteJob(tx, j)
	})
}

// updateSession changes the session's record. A terminal session is left as it
// is: late events change nothing.
func (s *Supervisor) updateSession(ctx context.Context, fn func(tx *store.Tx, rec *store.Session) error) error {
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(s.session)
		if err != nil {
			return err
		}
		if rec.Status.Terminal() {
			return nil
		}
		if err := fn(tx, rec); err != nil {
			if errors.Is(err, errUnchanged) {
				return nil
			}
			return err
		}
		rec.LastActiveAt = s.cfg.now().UTC()
		return c.putSession(tx, rec)
	})
}

// audit writes one row of the trail within tx.
func (s *Supervisor) audit(tx *store.Tx, event, jobID, caller string, details map[string]any) error {
	return tx.Audit(&store.Audit{
		At: s.cfg.now().UTC(), Event: event, SessionID: s.session, RunID: s.runID,
		JobID: jobID, Caller: caller, Details: details,
	})
}

// cachedSession returns the last committed record of the session.
func (s *Supervisor) cachedSession() *store.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := *s.sess
	return &copied
}

// cachedJob returns the last committed record of a job.
func (s *Supervisor) cachedJob(id string) (*store.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, ok := s.jobs[id]
	if !ok {
		return nil, core.Errorf(core.KindNotFound, "no job %q in session %s", id, s.session).
			WithRemedy("list the jobs with agent_status")
	}
	copied := *j
	return &copied, nil
}
