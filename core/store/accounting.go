package store

import (
	"database/sql"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Class says when a holder counts.
type Class string

// The classes of holders.
const (
	ClassHeld Class = "held" // whatever its processes do
	ClassLive Class = "live" // while its host or its engine lives
)

// Holder is one row of the accounting: a root or a job that is not over. It
// says all that admission counts, of records of any release.
type Holder struct {
	SessionID string
	JobID     string // empty: the session's root
	AgentRef  string
	ProfileID string
	Agent     string // role; empty: the root
	Mode      string // of a job: read-only, workspace-write
	Status    string // of the job, or of the root's session
	Class     Class
	LockKey   string // empty: no limited resource
	Units     int
	Scopes    []string
	FoldsCase bool
	Host      Process
	Engine    Process
}

// Accounting lists all who may hold capacity, of all sessions. It fails closed:
// a record of this state package that can't be read, or that says something else
// than its columns, refuses the whole, with KindRuntime and `invalid job state`
// or `invalid session state`. Records of another package are taken by their
// columns. What has ended costs nothing.
func (t *Tx) Accounting() ([]Holder, error) {
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	rows, err := t.tx.QueryContext(t.ctx, `SELECT session_id, coalesce(job_id, ''), coalesce(agent_ref, ''), profile_id,
		coalesce(agent, ''), coalesce(mode, ''), status, class, coalesce(lock_key, ''), coalesce(units, 0),
		scopes, folds_case, coalesce(host_pid, 0), coalesce(host_start, ''), coalesce(host_boot, ''),
		coalesce(engine_pid, 0), coalesce(engine_start, ''), coalesce(engine_boot, '')
		FROM accounting ORDER BY session_id, job_id`)
	if err != nil {
		return nil, t.store.wrap(err, "reading the accounting")
	}
	defer func() { _ = rows.Close() }()
	var list []Holder
	for rows.Next() {
		h, err := scanHolder(rows)
		if err != nil {
			return nil, t.store.wrap(err, "reading the accounting")
		}
		list = append(list, *h)
	}
	return list, t.store.wrap(rows.Err(), "reading the accounting")
}

func scanHolder(rows *sql.Rows) (*Holder, error) {
	var h Holder
	var scopes sql.NullString
	err := rows.Scan(&h.SessionID, &h.JobID, &h.AgentRef, &h.ProfileID, &h.Agent, &h.Mode, &h.Status, &h.Class,
		&h.LockKey, &h.Units, &scopes, &h.FoldsCase, &h.Host.PID, &h.Host.StartToken, &h.Host.BootID,
		&h.Engine.PID, &h.Engine.StartToken, &h.Engine.BootID)
	if err != nil {
		return nil, err
	}
	if !scopes.Valid {
		return &h, nil
	}
	if err := strictjson.Unmarshal([]byte(scopes.String), &h.Scopes, nil); err != nil {
		return nil, core.Errorf(core.KindRuntime, "invalid job state: the write scopes of job %q: %w", h.JobID, err)
	}
	return &h, nil
}

// checkOpen reads every record of this package that is not over, with the agent
// run that belongs to it: the accounting may rely on their columns then.
func (t *Tx) checkOpen() error {
	var q where
	q.in("status", texts(openSessions))
	if _, err := sessionTable.list(t, q.String(), q.args, strictly("session")); err != nil {
		return err
	}
	q = where{}
	q.in("status", texts(openJobs))
	jobs, err := jobTable.list(t, q.String(), q.args, strictly("job"))
	if err != nil {
		return err
	}
	return t.checkRuns(jobs)
}

// checkRuns demands that each job has an agent run of its own that can be read:
// its processes decide whether it counts.
func (t *Tx) checkRuns(jobs []*Job) error {
	refs := make([]string, len(jobs))
	for i, j := range jobs {
		refs[i] = j.AgentRef
	}
	var q where
	q.in("agent_ref", refs)
	if len(refs) == 0 {
		return nil
	}
	runs, err := agentRunTable.list(t, q.String(), q.args, strictly("job"))
	if err != nil {
		return err
	}
	owner := make(map[string]string, len(runs)) // agent run ref -> job id
	for _, run := range runs {
		owner[run.AgentRef] = run.JobID
	}
	for _, j := range jobs {
		if owner[j.AgentRef] != j.JobID {
			return core.Errorf(core.KindRuntime, "invalid job state: job %q has no agent run %q of its own", j.JobID, j.AgentRef)
		}
	}
	return nil
}

// strictly makes a row of this state package that can't be read fail a listing.
func strictly(noun string) func(row, error) error {
	return func(r row, err error) error {
		if pkg, ok := r[colPackage].(string); ok && pkg != StatePackage {
			return nil
		}
		return core.Errorf(core.KindRuntime, "invalid %s state: %w", noun, err)
	}
}

// Processes lists the identities that a holder is known by; those it has not are
// left out.
func (h *Holder) Processes() []Process {
	return slices.DeleteFunc([]Process{h.Host, h.Engine}, func(p Process) bool { return p.PID == 0 })
}
