package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// commandTimeout bounds one short command.
const commandTimeout = 30 * time.Second

// measureCLI compares `status` of a session that has ended, which reads the
// store and the evidence, with `version`, which reads nothing, and `version`
// with a process that does nothing at all.
func measureCLI(ctx context.Context, env bench, n int) ([]figure, error) {
	if found, err := sessions(env); err != nil {
		return nil, err
	} else if len(found) == 0 {
		if _, _, err := runTeam(ctx, env); err != nil {
			return nil, err
		}
	}
	start := figure{what: "CLI version", floor: "/bin/true", unit: "ms", at: 0.5}
	list := figure{what: "CLI status", floor: "CLI version", unit: "ms", at: 0.5, atMost: 1.5}
	for range n {
		for _, one := range []struct {
			into *[]float64
			argv []string
		}{
			{&start.floors, []string{"/bin/true"}},
			{&start.values, []string{env.binary, "version"}},
			{&list.values, []string{env.binary, "status"}},
		} {
			took, err := timed(ctx, env, one.argv...)
			if err != nil {
				return nil, err
			}
			*one.into = append(*one.into, milliseconds(took))
		}
	}
	list.floors = start.values
	many, err := measureHistory(ctx, env, n)
	return append([]figure{start, list}, many...), err
}

// measureHistory compares `sessions` and `status` among 10,000 ended sessions with
// the same among 10.
func measureHistory(ctx context.Context, env bench, n int) (figures []figure, err error) {
	few, err := history(ctx, env, "few-sessions", 10)
	if err != nil {
		return nil, err
	}
	many, err := history(ctx, env, "many-sessions", 10_000)
	if err != nil {
		return nil, err
	}
	for _, verb := range []string{"sessions", "status"} {
		f := figure{what: "CLI " + verb + ", 10,000 ended sessions", floor: "with 10", unit: "ms", at: 0.5, atMost: 2}
		for range n {
			floor, err := timed(ctx, few, few.binary, verb)
			if err != nil {
				return nil, err
			}
			took, err := timed(ctx, many, many.binary, verb)
			if err != nil {
				return nil, err
			}
			f.floors, f.values = append(f.floors, milliseconds(floor)), append(f.values, milliseconds(took))
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// history is a place whose records hold so many sessions that have ended.
func history(ctx context.Context, env bench, name string, count int) (bench, error) {
	env.dir = filepath.Join(env.dir, name)
	for _, dir := range []string{env.dir, env.workspace(), env.state(), env.runtime(), filepath.Join(env.dir, "home"), filepath.Join(env.dir, "config")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return env, err
		}
	}
	st, err := store.Open(ctx, filepath.Join(env.state(), "state.db"), nil)
	if err != nil {
		return env, err
	}
	defer st.Close()
	began := time.Now().UTC().Add(-time.Duration(count) * time.Minute)
	return env, st.Update(ctx, func(tx *store.Tx) error {
		for i := range count {
			if err := putEnded(tx, fmt.Sprintf("session-%05d", i), began.Add(time.Duration(i)*time.Minute)); err != nil {
				return err
			}
		}
		return nil
	})
}

func putEnded(tx *store.Tx, id string, at time.Time) error {
	rec := &store.Session{
		SessionID: id, ProfileID: "p", Workspace: "/w", RootAgent: "lead", RootAgentRef: "ar_" + id, Status: core.SessionStarting,
		RunSequence: 1, CreatedAt: at, LastActiveAt: at, CurrentRunID: "run-" + id,
	}
	run := &store.Run{RunID: rec.CurrentRunID, SessionID: id, Sequence: 1, Kind: store.RunInitial, Status: rec.Status, CreatedAt: at}
	err := errors.Join(tx.PutSession(rec), tx.InsertRun(run), tx.PutAgentRun(&store.AgentRun{AgentRef: rec.RootAgentRef, SessionID: id, Agent: "lead", Retired: true}))
	if err != nil {
		return err
	}
	for _, status := range []core.SessionStatus{core.SessionRunning, core.SessionFinishing, core.SessionCompleted} {
		if rec.Status = status; status.Terminal() {
			rec.LastRunID, rec.CurrentRunID, rec.FinishedAt = rec.CurrentRunID, "", &at
		}
		if err := tx.PutSession(rec); err != nil {
			return err
		}
	}
	return nil
}

// timed runs a command to its end.
func timed(ctx context.Context, env bench, argv ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env.environ(), env.workspace()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", argv, err, out)
	}
	return took, nil
}
