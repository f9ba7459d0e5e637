package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestJournal: it belongs to one integration, outside the tree; one that is not
// there never began.
func TestJournal(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	if out, err := r.Resume(t.Context(), plan.Journal); err != nil || out.State != workspace.RolledBack {
		t.Errorf("Resume without a journal = %v, %v, want rolled back", out, err)
	}
	for _, bad := range []string{"relative", filepath.Join(w.top, "journal"), w.state} {
		other := *plan
		other.Journal = bad
		if _, err := r.Integrate(t.Context(), &other); core.KindOf(err) != core.KindValue {
			t.Errorf("Integrate with journal %q = %v, want a ValueError", bad, err)
		}
	}
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	if _, err := r.Integrate(t.Context(), plan); core.KindOf(err) != core.KindValue {
		t.Errorf("Integrate with a used journal = %v, want a ValueError", err)
	}
	other := newWorld(t)
	other.commit(map[string]string{"a": "a\n"})
	if _, err := other.open().Resume(t.Context(), plan.Journal); core.KindOf(err) != core.KindValue {
		t.Errorf("Resume in another repository = %v, want a ValueError", err)
	}
}

// TestJournalAfterRollBack: a journal whose integration left the tree as it was,
// for sure, is used anew.
func TestJournalAfterRollBack(t *testing.T) {
	t.Parallel()
	for _, stop := range []string{"stage", "place edit", "sync"} {
		w, r, plan := edited(t)
		ctx, cancel := context.WithCancel(t.Context())
		plan.Trace = func(step string) {
			if step == stop {
				cancel()
				w.write(w.top, map[string]string{"edit": "mine\n"})
			}
		}
		_, first := r.Integrate(ctx, plan)
		cancel()
		w.reset()
		plan.Trace = nil
		out, err := r.Integrate(t.Context(), plan)
		if stop == "sync" { // it had been written and was applied
			if first != nil || core.KindOf(err) != core.KindValue {
				t.Errorf("Integrate = %v, again = %v, want it applied, then a ValueError", first, err)
			}
			continue
		}
		if first == nil || err != nil || out.State != workspace.Applied || snapshotOf(t, filepath.Join(w.top, "edit")) != "new\n" {
			t.Errorf("stopped before %q: Integrate = %v, again = %v, want it applied then", stop, first, err)
		}
	}
}

// TestJournalInUse: an integration that did not end keeps its journal until
// Resume ended it.
func TestJournalInUse(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	n := slices.Index(integrationSteps(t, w, r, plan), "place edit")
	if _, died := crashing(t, order{Git: gitPath(t), State: w.state, Top: w.top, Plan: *plan, Step: n}); !died {
		t.Fatal("the other process did not die")
	}
	keep := w.unchanged(w.root, "state/git")
	_, err := r.Integrate(t.Context(), plan)
	var refusal *core.Error
	if !errors.As(err, &refusal) || refusal.Kind != core.KindValue || refusal.Remedy == "" || !strings.Contains(err.Error(), "in use by another integration") {
		t.Errorf("Integrate with the journal of one that was cut off = %v, want a ValueError with a remedy", err)
	}
	keep()
	_, err = r.Resume(t.Context(), plan.Journal)
	must(t, err)
	_, err = r.Integrate(t.Context(), plan)
	must(t, err)
}

// TestForeignJournal: a folder that holds anything else is no journal, and
// stays as it is.
func TestForeignJournal(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	must(t, os.Mkdir(plan.Journal, 0o700))
	w.write(plan.Journal, map[string]string{"rolled-back": "", "patch.diff": "evidence\n"})
	keep := w.unchanged(w.root, "state/git")
	if _, err := r.Integrate(t.Context(), plan); core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), `"patch.diff"`) {
		t.Errorf("Integrate = %v, want a ValueError naming patch.diff", err)
	}
	keep()
}
