package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestTaintOfAHalfPatch: when a patch could be put in neither whole nor out
// again, the session is tainted; when that can't be recorded either, the error
// says so, and the job keeps its intent on record.
//
// Spec: R106
func TestTaintOfAHalfPatch(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		r := newRig(t, core.SessionRunning, core.JobCompleted)
		err := r.updateJob(t.Context(), "j0", func(_ *store.Tx, j *store.Job) error {
			j.ResultKind, j.ResultState, j.Integrating = core.ResultFinal, core.ResultAccepted, true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !recorded {
			r.sql(testkit.Fault{Name: "no_taint", Table: "sessions", On: "UPDATE", Message: "disk full"}.SQL())
		}
		err = r.abandonIntegration(t.Context(), "j0", fmt.Errorf("rolling back: %w", workspace.ErrTaint))
		const lost = "taint marker also could not be persisted"
		if core.KindOf(err) != core.KindRuntime || strings.Contains(err.Error(), lost) == recorded || strings.Contains(err.Error(), "disk full") == recorded ||
			!strings.Contains(err.Error(), "the workspace needs manual repair") {
			t.Errorf("recorded %v: %v", recorded, err)
		}
		if rec := r.cachedSession(); rec.Tainted != recorded {
			t.Errorf("recorded %v: the session is tainted: %v", recorded, rec.Tainted)
		}
		j, err := r.cachedJob("j0")
		if err != nil || j.ResultState != core.ResultAccepted || !j.Integrating {
			t.Errorf("recorded %v: the job is %+v, %v", recorded, j, err)
		}
	}
}
