package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// The size of the history.
const (
	leads = 8   // processes, each with a session of its own
	moves = 500 // of each process
)

// leadEnv makes the test binary play one lead: "<number> <database>".
const leadEnv = "MMO_ADMISSION_TEST_LEAD"

// history is the session under which all moves stand in the audit trail: their
// order there is that of their transactions.
const history = "history"

// move is one transaction of a lead, as it stands in the trail.
type move struct {
	Lead     int       `json:"lead"`
	Op       string    `json:"op"` // spawn, end, suspend, continue
	Jobs     []string  `json:"jobs"`
	Requests []request `json:"requests"` // of a spawn
	Admitted bool      `json:"admitted"`
	Seen     int64     `json:"seen"` // the last move that was over before this one began
}

type request struct {
	Agent string   `json:"agent"`
	Mode  string   `json:"mode"`
	Paths []string `json:"paths"`
}

func (r request) admission() admission.Request {
	return admission.Request{Agent: r.Agent, Mode: r.Mode, HasTask: true, Scope: admission.Scope{Named: true, Paths: r.Paths}}
}

// lead is one process that admits, ends, suspends and takes up jobs of its
// session.
type lead struct {
	n      int
	st     *store.Store
	random *rand.Rand
	jobs   map[string]core.JobStatus // that are not over
	order  []string
	seen   int64
}

// playLead makes the moves of one lead.
func playLead(spec string) error {
	var n int
	var path string
	if _, err := fmt.Sscanf(spec, "%d %s", &n, &path); err != nil {
		return err
	}
	ctx := context.Background()
	st, err := store.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	l := &lead{n: n, st: st, random: rand.New(rand.NewPCG(uint64(n), 7)), jobs: map[string]core.JobStatus{}}
	for i := range moves {
		if err := l.look(ctx); err != nil {
			return err
		}
		if err := st.Update(ctx, func(tx *store.Tx) error { return l.move(tx, i) }); err != nil {
			return err
		}
	}
	return st.Close()
}

// look learns which moves are over.
func (l *lead) look(ctx context.Context) error {
	return l.st.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.AuditRows(history, l.seen, leads*moves)
		for _, row := range rows {
			l.seen = row.Seq
		}
		return err
	})
}

func (l *lead) session() string { return fmt.Sprintf("s%d", l.n) }

func (l *lead) move(tx *store.Tx, i int) error {
	m := move{Lead: l.n, Seen: l.seen}
	holders, err := tx.Accounting()
	if err != nil {
		return err
	}
	w := &world{holders: holders, sessions: runningSessions()}
	pick := l.random.IntN(10)
	switch {
	case pick < 5 || len(l.order) == 0:
		err = l.spawn(tx, w, i, &m)
	case pick < 8:
		err = l.change(tx, w, &m, "end", core.JobCompleted)
	case pick < 9:
		err = l.change(tx, w, &m, "suspend", core.JobSuspended)
	default:
		err = l.change(tx, w, &m, "continue", core.JobRecovering)
	}
	if err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Audit(&store.Audit{At: time.Unix(0, 0), Event: m.Op, SessionID: history, Details: map[string]any{"move": string(raw)}})
}

func (l *lead) spawn(tx *store.Tx, w *world, i int, m *move) error {
	m.Op = "spawn"
	var requests []admission.Request
	for k := range 1 + l.random.IntN(2) {
		r := request{Agent: []string{"r", "h"}[l.random.IntN(2)], Mode: "read-only"}
		if l.random.IntN(2) == 0 {
			r.Mode, r.Paths = "workspace-write", []string{somePaths[l.random.IntN(len(somePaths))]}
		}
		m.Requests, m.Jobs = append(m.Requests, r), append(m.Jobs, fmt.Sprintf("p%d-%d-%d", l.n, i, k))
		requests = append(requests, r.admission())
	}
	if _, err := admission.Decide(w.view(l.session(), nil), requests); err != nil {
		return onlyRefused(err)
	}
	m.Admitted = true
	for k, r := range m.Requests {
		j := &store.Job{
			JobID: m.Jobs[k], SessionID: l.session(), ProfileID: profileOf(l.session()), AgentRef: "ar_" + m.Jobs[k], Agent: r.Agent,
			Mode: r.Mode, Status: core.JobRunning, Lease: store.Lease{Paths: r.Paths}, CreatedAt: time.Unix(0, 0),
		}
		if r.Agent == "h" {
			j.LockKey, j.Units = "k", 2
		}
		if err := tx.PutJob(j); err != nil {
			return err
		}
		if err := tx.PutAgentRun(&store.AgentRun{AgentRef: j.AgentRef, SessionID: j.SessionID, JobID: j.JobID}); err != nil {
			return err
		}
		l.jobs[j.JobID], l.order = j.Status, append(l.order, j.JobID)
	}
	return nil
}

// change moves one of the lead's jobs to a status, if it may.
func (l *lead) change(tx *store.Tx, w *world, m *move, op string, to core.JobStatus) error {
	id := l.order[l.random.IntN(len(l.order))]
	m.Op, m.Jobs = op, []string{id}
	if !l.jobs[id].CanBecome(to) || op == "continue" && l.jobs[id] != core.JobSuspended {
		return nil // not admitted, and no change
	}
	j, err := tx.Job(id)
	if err != nil {
		return err
	}
	if op == "continue" {
		r := request{Agent: j.Agent, Mode: j.Mode, Paths: j.Lease.Paths}
		if _, err := admission.DecideContinue(w.view(l.session(), nil), j.AgentRef, r.admission()); err != nil {
			return onlyRefused(err)
		}
	}
	m.Admitted, j.Status, l.jobs[id] = true, to, to
	if to.Terminal() {
		delete(l.jobs, id)
		for i, other := range l.order {
			if other == id {
				l.order = append(l.order[:i], l.order[i+1:]...)
				break
			}
		}
	}
	return tx.PutJob(j)
}

// onlyRefused passes on an error that is no refusal.
func onlyRefused(err error) error {
	if core.KindOf(err) == core.KindAdmission {
		return nil
	}
	return err
}

func runningSessions() map[string]core.SessionStatus {
	sessions := map[string]core.SessionStatus{}
	for i := range leads {
		sessions[fmt.Sprintf("s%d", i)] = core.SessionRunning
	}
	return sessions
}

// TestHistoryOfManyProcesses: eight processes make 500 moves each on one store.
// Their history is linearizable: played one after the other in the order of
// their transactions, a plain model admits what was admitted and refuses what
// was refused, no limit is exceeded and no two leases touch at any point, and no
// move stands before one that was over when it began.
func TestHistoryOfManyProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	st, err := store.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	err = st.Update(t.Context(), func(tx *store.Tx) error {
		for id := range runningSessions() {
			now := time.Unix(0, 0)
			rec := &store.Session{SessionID: id, ProfileID: profileOf(id), Workspace: "/w", Status: core.SessionStarting, RunSequence: 1, CreatedAt: now, LastActiveAt: now}
			if err := tx.PutSession(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	playLeads(t, path)

	var rows []*store.Audit
	err = st.View(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.AuditRows(history, 0, leads*moves+1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != leads*moves {
		t.Fatalf("the trail has %d moves, want %d", len(rows), leads*moves)
	}
	replay(t, rows)
}

// playLeads runs all leads to their end.
func playLeads(t *testing.T, path string) {
	t.Helper()
	var all sync.WaitGroup
	for n := range leads {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), leadEnv+"="+strconv.Itoa(n)+" "+path)
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("lead %d: %v: %s", n, err, out)
			}
		})
	}
	all.Wait()
}

// replay plays the moves one after the other on the model.
func replay(t *testing.T, rows []*store.Audit) {
	t.Helper()
	w := &world{sessions: runningSessions()}
	admitted, refused := 0, 0
	for _, row := range rows {
		var m move
		if err := json.Unmarshal([]byte(row.Details["move"].(string)), &m); err != nil {
			t.Fatal(err)
		}
		if m.Seen >= row.Seq {
			t.Fatalf("move %d of lead %d stands before move %d, which was over when it began", row.Seq, m.Lead, m.Seen)
		}
		session := fmt.Sprintf("s%d", m.Lead)
		if m.Op == "spawn" {
			requests := make([]admission.Request, len(m.Requests))
			for i, r := range m.Requests {
				requests[i] = r.admission()
			}
			if fits := w.fits(session, requests); fits != m.Admitted {
				t.Fatalf("move %d: the model has room: %v; it was admitted: %v: %+v", row.Seq, fits, m.Admitted, m)
			}
			if !m.Admitted {
				refused++
				continue
			}
			admitted++
			for i, r := range requests {
				w.add(session, r)
				w.holders[len(w.holders)-1].JobID = m.Jobs[i]
			}
		} else {
			playChange(t, w, session, row.Seq, m)
		}
		w.check(t)
	}
	if admitted < leads || refused < leads {
		t.Errorf("%d batches were admitted and %d refused: the history proves little", admitted, refused)
	}
}

func playChange(t *testing.T, w *world, session string, seq int64, m move) {
	t.Helper()
	for i := range w.holders {
		h := &w.holders[i]
		if h.JobID != m.Jobs[0] {
			continue
		}
		r := admission.Request{Agent: h.Agent, Mode: h.Mode, Scope: admission.Scope{Paths: h.Scopes}}
		switch {
		case m.Op == "continue" && h.Class == store.ClassLive && w.fits(session, []admission.Request{r}) != m.Admitted:
			t.Fatalf("move %d: a return was admitted: %v, the model says otherwise: %+v", seq, m.Admitted, m)
		case !m.Admitted:
		case m.Op == "end":
			w.holders = append(w.holders[:i], w.holders[i+1:]...)
		case m.Op == "suspend":
			h.Class = store.ClassLive
		case m.Op == "continue":
			h.Class = store.ClassHeld
		}
		return
	}
	t.Fatalf("move %d is about job %s, which the model does not have", seq, m.Jobs[0])
}
