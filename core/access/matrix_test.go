package access_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The team of the matrix: lead spawns w and s; w spawns c, which spawns g.
var (
	root     = access.Caller{Role: access.RoleRoot, Agent: "lead", AgentRef: "ar_root", Grants: access.Grants{Spawns: true}}
	worker   = access.Caller{Role: access.RoleWorker, Agent: "worker", AgentRef: "ar_w", JobID: "w", Chain: []string{"ar_root"}}
	operator = access.Caller{Role: access.RoleOperator}

	none       = access.Job{}
	ownJob     = access.Job{JobID: "w", AgentRef: "ar_w", Agent: "worker", ParentChain: []string{"ar_root"}}
	child      = access.Job{JobID: "c", AgentRef: "ar_c", Agent: "helper", ParentChain: []string{"ar_w", "ar_root"}}
	grandchild = access.Job{JobID: "g", AgentRef: "ar_g", Agent: "digger", ParentChain: []string{"ar_c", "ar_w", "ar_root"}}
	sibling    = access.Job{JobID: "s", AgentRef: "ar_s", Agent: "sibling", ParentChain: []string{"ar_root"}}
)

func granted(c access.Caller, g access.Grants) access.Caller {
	c.Grants = g
	return c
}

// callers are all kinds of caller.
var callers = []struct {
	name   string
	caller access.Caller
}{
	{"nobody", access.Caller{}},
	{"operator", operator},
	{"root", root},
	{"root that controls siblings", granted(root, access.Grants{Spawns: true, Controls: map[string][]string{"sibling": {"steer", "stop"}}})},
	{"worker", worker},
	{"worker that delegates", granted(worker, access.Grants{Spawns: true})},
	{"worker that sees the session", granted(worker, access.Grants{WholeSession: true})},
	{"worker that controls siblings", granted(worker, access.Grants{Controls: map[string][]string{"sibling": {"steer", "stop"}, "worker": {"steer"}}})},
	{"native of the root that delegates", access.Caller{Role: access.RoleNative, Agent: "scout", AgentRef: "ar_root", Grants: access.Grants{Spawns: true}}},
	{"native of the worker", access.Caller{Role: access.RoleNative, Agent: "scout", AgentRef: "ar_w", JobID: "w", Chain: []string{"ar_root"}}},
}

var targets = []struct {
	name string
	job  access.Job
}{{"-", none}, {"own", ownJob}, {"child", child}, {"grandchild", grandchild}, {"sibling", sibling}}

// verbs are those of the control API and the actions of its verb control, and
// one that is none.
var verbs = []string{
	"hello", "caller", "session", "jobs", "wait", "result", "inspect", "trace",
	"steer", "interrupt", "pause", "continue", "finalize", "compact", "set_effort", "respond", "fork", "detach", "stop_job",
	"accept", "reject", "integrate", "cancel", "spawn", "root", "attach", "stop", "follow", "audit",
	"session_pause", "session_continue", "session_resume", "session_compact", "session_detach", "session_cancel", "session_taint",
	"no-such-verb",
}

// states are those of a session in groups that decide alike, with taint apart.
func states() map[string][]access.State {
	groups := map[string][]access.State{}
	for _, status := range slices.Sorted(maps.Keys(core.SessionTransitions())) {
		name := "at work or at rest"
		switch {
		case status.Terminal():
			name = "over"
		case status == core.SessionFinishing || status == core.SessionCancelling:
			name = "ending"
		}
		groups[name] = append(groups[name], access.State{Status: status})
		if name == "at work or at rest" {
			groups["tainted"] = append(groups["tainted"], access.State{Status: status, Tainted: true})
		}
	}
	return groups
}

// TestMatrix holds the authority of every kind of caller, for every verb, on
// every kind of job, in every state of the session, against testdata/matrix.txt.
// Who may do something is written by the jobs that he may do it on; what is not
// written is refused.
func TestMatrix(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	groups := states()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&out, "# session %s\n", group)
		for _, c := range callers {
			fmt.Fprintf(&out, "\n%s\n", c.name)
			for _, verb := range verbs {
				if row := allowedOn(t, c.caller, verb, groups[group]); row != "" {
					fmt.Fprintf(&out, "  %-16s %s\n", verb, row)
				}
			}
		}
		out.WriteString("\n")
	}
	path := filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("rights changed (-want +got), see go test ./core/access -update:\n%s", diff)
	}
}

// allowedOn lists the jobs that a caller may use a verb on. The states of one
// group must agree, and every refusal is a PermissionError that names the verb.
func allowedOn(t *testing.T, c access.Caller, verb string, list []access.State) string {
	t.Helper()
	var allowed []string
	for _, target := range targets {
		first := access.May(c, verb, target.job, list[0])
		for _, state := range list {
			err := access.May(c, verb, target.job, state)
			if (err == nil) != (first == nil) {
				t.Errorf("May(%s, %s, %s): %v when the session is %s, %v when it is %s", c.Role, verb, target.name, first, list[0].Status, err, state.Status)
			}
			if err != nil && core.KindOf(err) != core.KindPermission {
				t.Errorf("May(%s, %s, %s) = %v, want a PermissionError", c.Role, verb, target.name, err)
			}
		}
		if first == nil {
			allowed = append(allowed, target.name)
		}
	}
	return strings.Join(allowed, " ")
}

// TestWords: refusals say what is so in the words that callers match on.
func TestWords(t *testing.T) {
	t.Parallel()
	running := access.State{Status: core.SessionRunning}
	over := access.State{Status: core.SessionCompleted}
	for _, tt := range []struct {
		caller access.Caller
		verb   string
		job    access.Job
		state  access.State
		want   string
	}{
		{worker, "session", none, running, "only the root role"},
		{worker, "accept", sibling, running, "not a descendant"},
		{worker, "cancel", sibling, running, "not a descendant"},
		{worker, "result", sibling, running, "not a descendant"},
		{worker, "steer", sibling, running, `not granted that on "sibling"`},
		{root, "spawn", none, over, "is unavailable"},
		{root, "spawn", none, access.State{Status: core.SessionRunning, Tainted: true}, "tainted"},
		{root, "stop", none, running, "the operator's alone"},
		{access.Caller{}, "hello", none, running, "an unknown caller"},
	} {
		err := access.May(tt.caller, tt.verb, tt.job, tt.state)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("May(%s, %s, %s) = %v, want %q in it", tt.caller.Role, tt.verb, tt.job.JobID, err, tt.want)
		}
	}
}

// TestRightsAreApart: who may see a job, or control it, has no say in its result
// and can't cancel it.
func TestRightsAreApart(t *testing.T) {
	t.Parallel()
	running := access.State{Status: core.SessionRunning}
	sees := granted(worker, access.Grants{WholeSession: true})
	controls := granted(worker, access.Grants{Controls: map[string][]string{"sibling": {"steer", "stop"}}})
	for _, tt := range []struct {
		name    string
		caller  access.Caller
		verb    string
		allowed bool
	}{
		{"sees", sees, "result", true},
		{"sees", sees, "accept", false},
		{"sees", sees, "steer", false},
		{"sees", sees, "cancel", false},
		{"controls", controls, "steer", true},
		{"controls", controls, "stop_job", true},
		{"controls", controls, "result", true},
		{"controls", controls, "pause", false},
		{"controls", controls, "accept", false},
		{"controls", controls, "cancel", false},
	} {
		if err := access.May(tt.caller, tt.verb, sibling, running); (err == nil) != tt.allowed {
			t.Errorf("a worker that %s its sibling: %s = %v, want allowed %v", tt.name, tt.verb, err, tt.allowed)
		}
	}
}
