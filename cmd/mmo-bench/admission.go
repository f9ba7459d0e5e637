package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// The size of what is measured.
const (
	batchSize = 8
	openJobs  = 6 // at work beside the batch
	fewJobs   = 10
	manyJobs  = 10_000 // that have ended
	perRound  = 20     // decisions for each -n: a p95 needs many
)

// measureAdmission times the transaction that admits a batch of 8, beside one
// that writes a single row, with few and with many finished jobs in the store.
// The three take turns, and each batch is removed again, but for its rows in the
// audit trail and its key. It leaves out the purse: the session has no budget, so
// what each job may spend is not worked out.
func measureAdmission(ctx context.Context, env bench, n int) ([]figure, error) {
	few, err := newGround(ctx, filepath.Join(env.dir, "few"), fewJobs)
	if err != nil {
		return nil, err
	}
	defer few.st.Close()
	many, err := newGround(ctx, filepath.Join(env.dir, "many"), manyJobs)
	if err != nil {
		return nil, err
	}
	defer many.st.Close()
	one := figure{what: "admission, batch of 8, 10 finished jobs", floor: "one fsynced transaction", unit: "ms", at: 0.95, atMost: 6}
	grown := figure{what: "admission, batch of 8, 10,000 finished", floor: "with 10 finished", unit: "ms", at: 0.95, atMost: 1.5}
	for range n * perRound {
		floor, err := few.timed(ctx, few.row)
		if err != nil {
			return nil, err
		}
		a, err := few.admit(ctx)
		if err != nil {
			return nil, err
		}
		b, err := many.admit(ctx)
		if err != nil {
			return nil, err
		}
		one.values, one.floors = append(one.values, a), append(one.floors, floor)
		grown.values, grown.floors = append(grown.values, b), append(grown.floors, a)
	}
	return []figure{one, grown}, nil
}

// ground is a store with a session at work.
type ground struct {
	st   *store.Store
	next int
}

const groundSession = "bench"

func newGround(ctx context.Context, dir string, finished int) (*ground, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, filepath.Join(dir, "state.db"), nil)
	if err != nil {
		return nil, err
	}
	g := &ground{st: st}
	now := time.Now()
	err = st.Update(ctx, func(tx *store.Tx) error {
		rec := &store.Session{
			SessionID: groundSession, ProfileID: "p", Workspace: "/w", RootAgentRef: "ar_root", Status: core.SessionStarting,
			RunSequence: 1, CreatedAt: now, LastActiveAt: now,
		}
		run := &store.Run{RunID: "run-000001-x", SessionID: groundSession, Sequence: 1, Kind: store.RunInitial, Status: rec.Status, CreatedAt: now}
		if err := errors.Join(tx.PutSession(rec), tx.InsertRun(run), tx.PutAgentRun(&store.AgentRun{AgentRef: "ar_root", SessionID: groundSession})); err != nil {
			return err
		}
		for range finished {
			if err := g.put(tx, core.JobCompleted); err != nil {
				return err
			}
		}
		for range openJobs {
			if err := g.put(tx, core.JobRunning); err != nil {
				return err
			}
		}
		return nil
	})
	return g, err
}

// put writes a job with all that its admission writes.
func (g *ground) put(tx *store.Tx, status core.JobStatus) error {
	g.next++
	id := fmt.Sprintf("j%d", g.next)
	now := time.Now()
	return errors.Join(
		tx.Audit(&store.Audit{At: now, Event: "agent_started", SessionID: groundSession, RunID: "run-000001-x", JobID: id, Details: map[string]any{"agent": "a"}}),
		tx.PutJob(&store.Job{
			JobID: id, SessionID: groundSession, ProfileID: "p", AgentRef: "ar_" + id, Agent: "a", BatchID: "b", Depth: 1,
			Mode: admission.ModeReadOnly, Cwd: "/w", Status: status, CreatedAt: now, LockKey: "k", Units: 1,
		}),
		tx.PutAgentRun(&store.AgentRun{AgentRef: "ar_" + id, SessionID: groundSession, JobID: id, Agent: "a", Model: "m", Route: "r", Home: "/h"}),
		tx.AppendInput(&store.Input{
			InputID: "in-" + id, SessionID: groundSession, AgentRef: "ar_" + id, Origin: "task", Text: "look", State: store.InputIntended, CreatedAt: now,
		}),
	)
}

// timed returns how long a transaction took, in milliseconds.
func (g *ground) timed(ctx context.Context, fn func(*store.Tx) error) (float64, error) {
	began := time.Now()
	err := g.st.Update(ctx, fn)
	return float64(time.Since(began).Microseconds()) / 1000, err
}

func (g *ground) row(tx *store.Tx) error {
	return tx.Audit(&store.Audit{At: time.Now(), Event: "floor", SessionID: groundSession, RunID: "run-000001-x"})
}

// admit times the admission of a batch and removes its jobs after that, so that
// the number of finished ones stays what it is.
func (g *ground) admit(ctx context.Context) (float64, error) {
	first := g.next + 1
	ms, err := g.timed(ctx, func(tx *store.Tx) error {
		view, err := viewOf(tx)
		if err != nil {
			return err
		}
		requests := make([]admission.Request, batchSize)
		for i := range requests {
			requests[i] = admission.Request{Agent: "a", Mode: admission.ModeReadOnly, HasTask: true}
		}
		if _, err := admission.Decide(view, requests); err != nil {
			return err
		}
		for range batchSize {
			if err := g.put(tx, core.JobQueued); err != nil {
				return err
			}
		}
		return tx.PutSpawnKey(groundSession, fmt.Sprint(g.next), []byte("{}"))
	})
	if err != nil {
		return 0, err
	}
	return ms, g.st.Update(ctx, func(tx *store.Tx) error {
		for i := range batchSize {
			j, err := tx.Job(fmt.Sprintf("j%d", first+i))
			if err != nil {
				return err
			}
			j.Status = core.JobFailed // only what has ended can be removed
			if err := errors.Join(tx.PutJob(j), tx.DeleteJob(j.JobID)); err != nil {
				return err
			}
		}
		return nil
	})
}

// viewOf gathers what a supervisor gathers.
func viewOf(tx *store.Tx) (admission.View, error) {
	rec, err := tx.Session(groundSession)
	if err != nil {
		return admission.View{}, err
	}
	holders, err := tx.Accounting()
	return admission.View{
		SessionID: groundSession, ProfileID: rec.ProfileID, SessionStatus: core.SessionRunning,
		Limits: admission.Limits{MaxDepth: 1, MaxActiveAgents: 64, MaxWriters: 64},
		Agents: map[string]admission.Agent{
			"lead": {CanSpawn: []string{"a"}},
			"a":    {Permissions: admission.ModeReadOnly, Resource: admission.Resource{ID: "k", LockKey: "k", Units: 1, Max: 1000}},
		},
		Caller:  admission.Caller{Agent: "lead", Ancestors: []string{"lead"}},
		Holders: admission.Counting(holders, func(store.Process) bool { return false }),
	}, err
}
