package store

import (
	"encoding/json"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// What can be wrong with a lineage.
const (
	lineageIncomplete = "root thread lineage entry is incomplete"
	lineageInvalid    = "root thread lineage entry is invalid"
	lineageTransition = "root thread transition is inconsistent"
)

// problem says what is wrong with the record of the root's threads: entries are
// numbered from 1 without a gap, each is linked to the next, none comes twice,
// the last is the root's present thread, and a staged transition leads from it
// to a new one.
func (r *RootThread) problem() string {
	seen := map[string]bool{}
	for i, e := range r.Lineage {
		last := i == len(r.Lineage)-1
		switch {
		case e.ThreadID == "" || e.CodexSessionID == "" || e.AdoptedAt.IsZero() || e.Reason == "":
			return lineageIncomplete
		case last != (e.SupersededAt == nil) || last != (e.SuccessorThreadID == ""),
			!last && e.SuccessorThreadID != r.Lineage[i+1].ThreadID:
			return lineageIncomplete
		case e.Generation != i+1, seen[e.ThreadID]:
			return lineageInvalid
		}
		seen[e.ThreadID] = true
	}
	present := ""
	if n := len(r.Lineage); n > 0 {
		present = r.Lineage[n-1].ThreadID
	}
	if r.ThreadID != present || r.Generation != len(r.Lineage) {
		return lineageInvalid
	}
	if t := r.Transition; t != nil {
		if t.FromThreadID != present || t.Generation != r.Generation+1 || t.ToThreadID == "" || seen[t.ToThreadID] || t.Reason == "" {
			return lineageTransition
		}
	}
	return ""
}

// lineageProblem says the same of a row's payload that is no record at all.
func lineageProblem(fields map[string]json.RawMessage) string {
	var r RootThread
	picked := map[string]json.RawMessage{}
	for name := range jsonFields[RootThread]() {
		if raw, ok := fields[name]; ok {
			picked[name] = raw
		}
	}
	raw, err := strictjson.Marshal(picked)
	if err == nil {
		err = strictjson.Unmarshal(raw, &r, nil)
	}
	if err != nil {
		return lineageIncomplete
	}
	return r.problem()
}
