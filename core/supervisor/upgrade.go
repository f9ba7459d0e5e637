package supervisor

import (
	"context"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// UpgradeRuntime moves a resting session to this build: the next supervisor and
// all that it starts run on it. A session at work keeps the build that it runs
// on. Its supervisor, if one serves it at the moment, must have left.
func UpgradeRuntime(ctx context.Context, st *store.Store, f folders.Folders, id, build string, now time.Time) error {
	lock, err := takeLock(filepath.Join(f.SessionDir(id), "supervisor.lock"))
	if err != nil {
		return err
	}
	if lock == nil {
		return core.Errorf(core.KindRuntime, "session %s has a supervisor: its build can't be changed now", id).
			WithRemedy("pause it first, and try again a little later")
	}
	defer lock.Unlock()
	binary, err := pinBinary(f.State, build)
	if err != nil {
		return err
	}
	return st.Update(ctx, func(tx *store.Tx) error {
		rec, err := tx.Session(id)
		if err != nil {
			return err
		}
		if rec.Status != core.SessionPaused && rec.Status != core.SessionSuspended {
			return core.Errorf(core.KindRuntime, "session %s is %s: only one at rest can move to another build", id, rec.Status).
				WithRemedy("pause it first: codex-mmo pause %s", id)
		}
		if rec.Binary.SHA256 == binary.SHA256 {
			return nil
		}
		run, err := tx.RunOf(id)
		if err != nil {
			return err
		}
		err = tx.Audit(&store.Audit{
			At: now.UTC(), Event: "runtime_upgraded", SessionID: id, RunID: run.RunID, Caller: "operator",
			Details: map[string]any{"from": rec.Binary.Build, "to": build, "sha256": binary.SHA256},
		})
		if err != nil {
			return err
		}
		rec.Binary = binary
		return tx.PutSession(rec)
	})
}
