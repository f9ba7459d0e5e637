package store

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// Session reads one session's record. A missing one is KindNotFound; one that
// can't be read is KindValue and stays as it is.
func (t *Tx) Session(id string) (*Session, error) { return sessionTable.get(t, id) }

// SessionFilter selects sessions. The zero value selects all.
type SessionFilter struct {
	Statuses  []core.SessionStatus
	Workspace string // exact path; empty: any
	Latest    int    // only those among the so many that were active last; 0: all
	// Strict makes a row that can't be read fail the listing, with KindRuntime
	// and "invalid session state", unless its status is terminal: it holds
	// nothing then. Otherwise such rows are left out.
	Strict bool
}

// Sessions lists the sessions that match, oldest first.
func (t *Tx) Sessions(f SessionFilter) ([]*Session, error) {
	var q where
	q.in("status", texts(f.Statuses))
	q.equal("workspace", f.Workspace)
	if f.Latest > 0 {
		q.terms = append(q.terms, "rowid IN (SELECT rowid FROM sessions ORDER BY last_active_at DESC LIMIT ?)")
		q.args = append(q.args, f.Latest)
	}
	return sessionTable.list(t, q.String(), q.args, func(r row, err error) error {
		status, _ := r["status"].(string)
		if !f.Strict || core.SessionStatus(status).Terminal() {
			return nil
		}
		return core.Errorf(core.KindRuntime, "invalid session state: %w", err)
	})
}

// PutSession inserts the session or updates it. The change of its status must
// be in core's table, so that a terminal status is final. The session's run, if
// it is there, gets the same status. Versions left zero are filled in.
func (t *Tx) PutSession(s *Session) error {
	if err := checkSession(s); err != nil {
		return err
	}
	old, err := t.Session(s.SessionID)
	switch {
	case core.KindOf(err) == core.KindNotFound:
	case err != nil:
		return err
	case old.Status != s.Status && !old.Status.CanBecome(s.Status):
		return core.Errorf(core.KindRuntime, "session %s is %s and can't become %s", s.SessionID, old.Status, s.Status)
	}
	if err := sessionTable.put(t, s); err != nil {
		return err
	}
	if old == nil || old.Status == s.Status && reflect.DeepEqual(old.RootThread, s.RootThread) {
		return nil
	}
	return t.mirror(s)
}

func checkSession(s *Session) error {
	if !core.ValidID(s.SessionID) {
		return core.Errorf(core.KindValue, "%q can't be the id of a session", s.SessionID)
	}
	if !s.Status.Valid() {
		return core.Errorf(core.KindValue, "session %s: %q is not a status", s.SessionID, s.Status)
	}
	if s.RunSequence != 1 {
		return core.Errorf(core.KindValue, "session %s: run sequence must be exactly 1", s.SessionID)
	}
	if problem := s.RootThread.problem(); problem != "" {
		return core.Errorf(core.KindValue, "session %s: %s", s.SessionID, problem)
	}
	return stamp("session", s.SessionID, &s.SchemaVersion, &s.PackageVersion)
}

// mirror gives the session's run the session's status and threads.
func (t *Tx) mirror(s *Session) error {
	runs, err := t.runsOf(s.SessionID)
	if err != nil {
		return err
	}
	for _, run := range runs {
		run.Status, run.RootThread = s.Status, s.RootThread
		if err := runTable.put(t, run); err != nil {
			return err
		}
	}
	return nil
}

// InsertRun adds the session's one run. A second one is refused.
func (t *Tx) InsertRun(r *Run) error {
	if !core.ValidID(r.RunID) {
		return core.Errorf(core.KindValue, "%q can't be the id of a run", r.RunID)
	}
	if r.Sequence != 1 {
		return core.Errorf(core.KindValue, "run %s: run sequence must be exactly 1", r.RunID)
	}
	if r.Kind != RunInitial {
		return core.Errorf(core.KindValue, "run %s: run kind must be %s", r.RunID, RunInitial)
	}
	if err := stamp("run", r.RunID, &r.SchemaVersion, &r.PackageVersion); err != nil {
		return err
	}
	runs, err := t.runsOf(r.SessionID)
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		return core.Errorf(core.KindRuntime, "session %s has run %s already", r.SessionID, runs[0].RunID)
	}
	return runTable.put(t, r)
}

// RunOf reads the session's one run.
func (t *Tx) RunOf(session string) (*Run, error) {
	runs, err := t.runsOf(session)
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, core.Errorf(core.KindRuntime, "session %s must have exactly its one active run; it has %d", session, len(runs))
	}
	return runs[0], nil
}

func (t *Tx) runsOf(session string) ([]*Run, error) {
	return runTable.list(t, "WHERE session_id = ?", []any{session}, refuse)
}

// Job reads one job's record. Errors as with Session.
func (t *Tx) Job(id string) (*Job, error) { return jobTable.get(t, id) }

// JobFilter selects jobs. The zero value selects those of all sessions.
type JobFilter struct {
	SessionID string
	Statuses  []core.JobStatus
	IDs       []string
	// Strict makes a row that can't be read fail the listing with its own
	// error. Otherwise such rows are left out.
	Strict bool
}

// Jobs lists the jobs that match, oldest first.
func (t *Tx) Jobs(f JobFilter) ([]*Job, error) {
	var q where
	q.equal("session_id", f.SessionID)
	q.in("status", texts(f.Statuses))
	q.in("job_id", f.IDs)
	return jobTable.list(t, q.String(), q.args, func(_ row, err error) error {
		if f.Strict {
			return err
		}
		return nil
	})
}

// PutJob inserts the job or updates it. The change of its status must be in
// core's table, so that a terminal status is final; a job never moves to
// another session. Versions left zero are filled in.
func (t *Tx) PutJob(j *Job) error {
	if !core.ValidID(j.JobID) {
		return core.Errorf(core.KindValue, "%q can't be the id of a job", j.JobID)
	}
	if !j.Status.Valid() {
		return core.Errorf(core.KindValue, "job %s: %q is not a status", j.JobID, j.Status)
	}
	if err := stamp("job", j.JobID, &j.SchemaVersion, &j.PackageVersion); err != nil {
		return err
	}
	old, err := t.Job(j.JobID)
	switch {
	case core.KindOf(err) == core.KindNotFound:
	case err != nil:
		return err
	case old.Status != j.Status && !old.Status.CanBecome(j.Status):
		return core.Errorf(core.KindRuntime, "job %s is %s and can't become %s", j.JobID, old.Status, j.Status)
	case old.SessionID != j.SessionID || old.AgentRef != j.AgentRef:
		return core.Errorf(core.KindValue, "job %s belongs to session %s as %s", j.JobID, old.SessionID, old.AgentRef)
	}
	return jobTable.put(t, j)
}

// where builds a condition from the filters that are set.
type where struct {
	terms []string
	args  []any
}

func (w *where) equal(column, value string) {
	if value != "" {
		w.terms, w.args = append(w.terms, column+" = ?"), append(w.args, value)
	}
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	w.terms = append(w.terms, column+" IN ("+strings.Join(slices.Repeat([]string{"?"}, len(values)), ", ")+")")
	for _, v := range values {
		w.args = append(w.args, v)
	}
}

// String returns the condition with its WHERE, or nothing.
func (w *where) String() string {
	if len(w.terms) == 0 {
		return ""
	}
	return "WHERE " + strings.Join(w.terms, " AND ")
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// absent turns "not there" into the zero record, for lookups where that is an
// answer.
func absent[T any](rec *T, err error) (*T, error) {
	var e *core.Error
	if errors.As(err, &e) && e.Kind == core.KindNotFound {
		return nil, nil
	}
	return rec, err
}
