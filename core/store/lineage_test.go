package store

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// TestLineage: the record of the root's threads is numbered without a gap,
// linked, unique, and ends with the present thread; a staged change leads from
// that to a new one.
//
// Spec: A055
func TestLineage(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	whole := func() *RootThread {
		return &RootThread{
			ThreadID: "t2", Generation: 2,
			Lineage: []LineageEntry{
				{Generation: 1, ThreadID: "t1", CodexSessionID: "c1", AdoptedAt: at, Reason: "initial", SupersededAt: &at, SuccessorThreadID: "t2"},
				{Generation: 2, ThreadID: "t2", CodexSessionID: "c2", AdoptedAt: at, Reason: "fresh_context"},
			},
			Transition: &ThreadTransition{FromThreadID: "t2", ToThreadID: "t3", Generation: 3, ObservedAt: at, Reason: "fresh_context"},
		}
	}
	for name, tt := range map[string]struct {
		change func(*RootThread)
		want   string
	}{
		"whole":                 {func(*RootThread) {}, ""},
		"nothing yet":           {func(r *RootThread) { *r = RootThread{} }, ""},
		"wrong successor":       {func(r *RootThread) { r.Lineage[0].SuccessorThreadID = "t9" }, "lineage entry is incomplete"},
		"no successor":          {func(r *RootThread) { r.Lineage[0].SuccessorThreadID = "" }, "lineage entry is incomplete"},
		"not superseded":        {func(r *RootThread) { r.Lineage[0].SupersededAt = nil }, "lineage entry is incomplete"},
		"successor of the last": {func(r *RootThread) { r.Lineage[1].SuccessorThreadID = "t3" }, "lineage entry is incomplete"},
		"no thread":             {func(r *RootThread) { r.Lineage[1].ThreadID = "" }, "lineage entry is incomplete"},
		"no Codex session":      {func(r *RootThread) { r.Lineage[0].CodexSessionID = "" }, "lineage entry is incomplete"},
		"no time":               {func(r *RootThread) { r.Lineage[0].AdoptedAt = time.Time{} }, "lineage entry is incomplete"},
		"no reason":             {func(r *RootThread) { r.Lineage[0].Reason = "" }, "lineage entry is incomplete"},
		"a thread twice": {func(r *RootThread) {
			r.Lineage[0].SuccessorThreadID, r.Lineage[1].ThreadID, r.ThreadID = "t1", "t1", "t1"
			r.Transition.FromThreadID = "t1"
		}, "lineage entry is invalid"},
		"a gap":                  {func(r *RootThread) { r.Lineage[1].Generation, r.Generation = 3, 3 }, "lineage entry is invalid"},
		"another thread is root": {func(r *RootThread) { r.ThreadID = "t1" }, "lineage entry is invalid"},
		"wrong generation":       {func(r *RootThread) { r.Generation = 1 }, "lineage entry is invalid"},
		"from another":           {func(r *RootThread) { r.Transition.FromThreadID = "t1" }, "transition is inconsistent"},
		"to one that was":        {func(r *RootThread) { r.Transition.ToThreadID = "t1" }, "transition is inconsistent"},
		"to none":                {func(r *RootThread) { r.Transition.ToThreadID = "" }, "transition is inconsistent"},
		"skips a generation":     {func(r *RootThread) { r.Transition.Generation = 4 }, "transition is inconsistent"},
	} {
		r := whole()
		tt.change(r)
		got := r.problem()
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		raw, err := strictjson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		if again := lineageProblem(fields); again != got {
			t.Errorf("%s: as a payload %q, want %q", name, again, got)
		}
	}
	for _, entry := range []string{`"t1"`, `7`, `null`, `[]`} {
		fields := map[string]json.RawMessage{"root_thread_lineage": json.RawMessage("[" + entry + "]")}
		if got := lineageProblem(fields); !strings.Contains(got, "lineage entry is incomplete") {
			t.Errorf("an entry that is %s: %q", entry, got)
		}
	}
}
