package codexmmo_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
)

// TestStates compares the tables in docs/STATES.md with those of the code.
func TestStates(t *testing.T) {
	compareStates(t, "Sessions", core.SessionTransitions())
	compareStates(t, "Jobs", core.JobTransitions())
}

// stateRow is one row of a table in docs/STATES.md:
//
//	| `running` | what it means | `paused`, `completed` |
var stateRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| ([^|]*) \\|$")

// compareStates holds the table under a heading against the code's.
func compareStates[S ~string](t *testing.T, heading string, table map[S][]S) {
	t.Helper()
	_, section, ok := strings.Cut(readFile(t, "docs/STATES.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/STATES.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	written := map[S][]S{}
	for _, row := range stateRow.FindAllStringSubmatch(section, -1) {
		written[S(row[1])] = nil
		for _, next := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			written[S(row[1])] = append(written[S(row[1])], S(next[1]))
		}
	}
	for state, next := range table {
		listed, ok := written[state]
		if !ok {
			t.Errorf("docs/STATES.md, %s: no row for %q", heading, state)
		}
		if !slices.Equal(sorted(listed), sorted(next)) {
			t.Errorf("docs/STATES.md, %s: %q may become %q, the code says %q", heading, state, sorted(listed), sorted(next))
		}
	}
	for state := range written {
		if _, ok := table[state]; !ok {
			t.Errorf("docs/STATES.md, %s: %q is no status", heading, state)
		}
	}
}

func sorted[S ~string](list []S) []S {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
