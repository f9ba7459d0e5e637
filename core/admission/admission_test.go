package admission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// view is a session with room for three agents and one writer, in which one
// reader works; another session of the profile has a writer at work in /w/src.
func view() admission.View {
	return admission.View{
		SessionID: "s1", ProfileID: "p", SessionStatus: core.SessionRunning,
		Caller: admission.Caller{Agent: "lead", Ancestors: []string{"lead"}},
		Limits: admission.Limits{MaxDepth: 1, MaxActiveAgents: 3, MaxWriters: 1},
		Agents: map[string]admission.Agent{
			"lead":   {CanSpawn: []string{"reader", "writer", "away", "literal", "scoped", "heavy"}},
			"reader": {TaskKinds: []string{"read"}, Permissions: "read-only", MaxActive: 3},
			"writer": {Permissions: "workspace-write"},
			"away":   {Permissions: "read-only", Unavailable: "missing credential X"},
			"other":  {Permissions: "read-only"},
			"literal": {
				Permissions: "read-only", LowTrust: true,
			},
			"scoped": {Permissions: "workspace-write", WriteScopeRequired: true},
			"heavy":  {Permissions: "read-only", Resource: admission.Resource{ID: "gpu", LockKey: "cards", Units: 2, Max: 3}},
		},
		Holders: []store.Holder{
			{SessionID: "s1", AgentRef: "ar_r1", ProfileID: "p", Status: "running", Class: store.ClassHeld, LockKey: "cards", Units: 1},
			{SessionID: "s1", JobID: "j1", AgentRef: "ar_1", ProfileID: "p", Agent: "reader", Mode: "read-only", Status: "running", Class: store.ClassHeld},
			{SessionID: "s2", AgentRef: "ar_r2", ProfileID: "p", Status: "detached", Class: store.ClassHeld},
			{
				SessionID: "s2", JobID: "j2", AgentRef: "ar_2", ProfileID: "p", Agent: "writer", Mode: "workspace-write", Status: "running",
				Class: store.ClassHeld, Scopes: []string{"/w/src"},
			},
		},
	}
}

func read() admission.Request {
	return admission.Request{Agent: "reader", TaskKind: "read", Mode: "read-only", HasTask: true}
}

func write(paths ...string) admission.Request {
	return admission.Request{Agent: "writer", Mode: "workspace-write", HasTask: true, Scope: admission.Scope{Named: true, Paths: paths}}
}

func literal(l admission.Literal) admission.Request {
	return admission.Request{Agent: "literal", Mode: "read-only", Literal: &l}
}

func changed(r admission.Request, f func(*admission.Request)) admission.Request { f(&r); return r }

func heavy() admission.Request {
	return admission.Request{Agent: "heavy", Mode: "read-only", HasTask: true}
}

// TestDecide: each refusal by its kind, its reason, who holds what is missing,
// and words that say what is wrong; and what is not refused.
func TestDecide(t *testing.T) {
	t.Parallel()
	locate := admission.Literal{Operation: "locate", Needle: "x", Paths: []string{"src"}}
	tests := []struct {
		name     string
		change   func(*admission.View)
		requests []admission.Request
		kind     core.Kind
		reason   string
		text     string
		holders  string // their ids
	}{
		{"a reader and a writer", nil, []admission.Request{read(), write("/w/docs")}, "", "", "", ""},
		{"a detached session", func(v *admission.View) { v.SessionStatus = core.SessionDetached }, []admission.Request{read()}, "", "", "", ""},
		{"a literal task", nil, []admission.Request{literal(locate)}, "", "", "", ""},
		{"nobody", nil, nil, core.KindValue, "", "no agents", ""},
		{"an ending session", func(v *admission.View) { v.SessionStatus = core.SessionFinishing }, []admission.Request{read()}, core.KindAdmission, "session_not_admitting", "not admitting", ""},
		{"a cancelled parent", func(v *admission.View) { v.Caller.JobStatus = core.JobCancelling }, []admission.Request{read()}, core.KindAdmission, "parent_not_admitting", "non-admitting agent job", ""},
		{"a stranger", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Agent = "nobody" })}, core.KindPermission, "", `may not spawn "nobody"`, ""},
		{"an agent that was not granted", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Agent = "other" })}, core.KindPermission, "", `may not spawn "other"`, ""},
		{"too deep", func(v *admission.View) { v.Caller.Depth = 1 }, []admission.Request{read()}, core.KindAdmission, "depth", "max_depth 1", ""},
		{"a role above itself", func(v *admission.View) { v.Caller.Ancestors = []string{"reader", "lead"} }, []admission.Request{read()}, core.KindAdmission, "ancestor_role", "ancestor-role repetition", ""},
		{"a task for low trust", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Agent = "literal" })}, core.KindValue, "", "low-trust agents accept literal_task", ""},
		{"a literal task with words", nil, []admission.Request{changed(literal(locate), func(r *admission.Request) { r.HasTask = true })}, core.KindValue, "", "low-trust agents accept literal_task", ""},
		{"an unknown operation", nil, []admission.Request{literal(admission.Literal{Operation: "architecture"})}, core.KindValue, "", `unsupported literal_task operation "architecture"`, ""},
		{"an unknown operation for another", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Literal = &admission.Literal{Operation: "architecture"} })}, core.KindValue, "", "unsupported literal_task operation", ""},
		{"no text", nil, []admission.Request{literal(admission.Literal{Operation: "summarize_supplied"})}, core.KindValue, "", "there is no text", ""},
		{"no needle", nil, []admission.Request{literal(admission.Literal{Operation: "locate", Paths: []string{"a"}})}, core.KindValue, "", "there is no needle", ""},
		{"data of another operation", nil, []admission.Request{literal(admission.Literal{Operation: "summarize_supplied", Text: "x", Needle: "y"})}, core.KindValue, "", "not its", ""},
		{"too many points", nil, []admission.Request{literal(admission.Literal{Operation: "summarize_supplied", Text: "x", MaxPoints: 101})}, core.KindValue, "", "max_points", ""},
		{"writing with low trust", nil, []admission.Request{changed(literal(locate), func(r *admission.Request) { r.Mode = "workspace-write" })}, core.KindPermission, "", "never writes", ""},
		{"a literal task for another", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Literal = &locate })}, core.KindValue, "", "takes no literal_task", ""},
		{"no task", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.HasTask = false })}, core.KindValue, "", "no task", ""},
		{"another kind of task", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.TaskKind = "dig" })}, core.KindValue, "", `task kind "dig"`, ""},
		{"writing by a reader", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Mode = "workspace-write" })}, core.KindPermission, "", "permanently read-only", ""},
		{"an unknown mode", nil, []admission.Request{changed(read(), func(r *admission.Request) { r.Mode = "all" })}, core.KindValue, "", `mode "all"`, ""},
		{"no scope where one is required", nil, []admission.Request{{Agent: "scoped", Mode: "workspace-write", HasTask: true, Scope: admission.Scope{Paths: []string{"/v"}}}}, core.KindValue, "", "must be told what it may change", ""},
		{"a route that is away", nil, []admission.Request{{Agent: "away", Mode: "read-only", HasTask: true}}, core.KindAdmission, "route_unavailable", "missing credential X", ""},
		{"one agent too many", func(v *admission.View) { v.Limits.MaxActiveAgents = 1 }, []admission.Request{read()}, core.KindAdmission, "active_agent_limit", "active-agent limit 1 is reached by job j1 of session s1 (running)", "j1"},
		{"one of a role too many", func(v *admission.View) { v.Holders[1].SessionID = "s3" }, []admission.Request{read(), read(), read()}, core.KindAdmission, "role_limit", "active reader limit 3 is reached by job j1 of session s3 (running), another member of this batch", "j1"},
		{"a role of another profile", func(v *admission.View) { v.Holders[1].SessionID, v.Holders[1].ProfileID = "s3", "q" }, []admission.Request{read(), read(), read()}, "", "", "", ""},
		{"one writer too many", nil, []admission.Request{write("/w/a"), write("/w/b")}, core.KindAdmission, "writer_limit", "active-writer limit 1", ""},
		{"units of a batch", nil, []admission.Request{heavy(), heavy()}, core.KindAdmission, "resource_limit", `resource group "gpu" (shared as "cards") has 3 of 3 units in use, 2 are needed: held by the root of session s1 (running)`, "root of s1"},
		{"units of a root", func(v *admission.View) { v.Holders[2].LockKey, v.Holders[2].Units = "cards", 1 }, []admission.Request{heavy()}, core.KindAdmission, "resource_limit", "resource group", "root of s1, root of s2"},
		{"more units than there are", func(v *admission.View) {
			a := v.Agents["heavy"]
			a.Resource.Units = 4
			v.Agents["heavy"] = a
		}, []admission.Request{heavy()}, core.KindAdmission, "resource_limit", "has 3 units, and this agent alone takes 4", ""},
		{"a scope inside another's", nil, []admission.Request{write("/w/src/module.py")}, core.KindAdmission, "write_scope_conflict", "write scope conflicts with job j2 of session s2", "j2"},
		{"a scope around another's", nil, []admission.Request{write("/w")}, core.KindAdmission, "write_scope_conflict", "write scope conflicts", "j2"},
		{"a scope with a like name", nil, []admission.Request{write("/w/src2")}, "", "", "", ""},
		{"a scope of another case", nil, []admission.Request{write("/w/SRC/x")}, "", "", "", ""},
		{"a scope of another case where that is the same", nil, []admission.Request{changed(write("/W/SRC/x"), func(r *admission.Request) { r.Scope.FoldsCase = true })}, core.KindAdmission, "write_scope_conflict", "write scope conflicts", "j2"},
		{"an invalid member after one that finds no room", func(v *admission.View) { v.Limits.MaxActiveAgents = 0 }, []admission.Request{read(), literal(admission.Literal{Operation: "x"})}, core.KindValue, "", "unsupported literal_task operation", ""},
	}
	for _, tt := range tests {
		v := view()
		if tt.change != nil {
			tt.change(&v)
		}
		before := v.Holders
		_, err := admission.Decide(v, tt.requests)
		if diff := cmp.Diff(before, v.Holders); diff != "" {
			t.Errorf("%s: the decision changed what it saw:\n%s", tt.name, diff)
		}
		if tt.kind == "" {
			if err != nil {
				t.Errorf("%s: refused: %v", tt.name, err)
			}
			continue
		}
		checkRefusal(t, tt.name, err, tt.kind, tt.reason, tt.text, tt.holders)
	}
}

func checkRefusal(t *testing.T, name string, err error, kind core.Kind, reason, text, holders string) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Reason != reason || !strings.Contains(e.Message, text) || e.Remedy == "" {
		t.Errorf("%s: %#v, want a %s with reason %q, %q in its text and a remedy", name, err, kind, reason, text)
		return
	}
	var ids []string
	for _, h := range e.Holders {
		id := h.JobID
		if id == "" {
			id = "root of " + h.SessionID
		}
		ids = append(ids, id)
		if h.Frees == "" {
			t.Errorf("%s: nothing is said to free what %s has", name, id)
		}
	}
	if got := strings.Join(ids, ", "); got != holders {
		t.Errorf("%s: held by %q, want %q", name, got, holders)
	}
}

// TestHolderOfALeaseIsShown: a refused writer learns what is written, by whom.
func TestHolderOfALeaseIsShown(t *testing.T) {
	t.Parallel()
	_, err := admission.Decide(view(), []admission.Request{write("/w/src")})
	var e *core.Error
	if !errors.As(err, &e) {
		t.Fatalf("Decide = %v, want a refusal", err)
	}
	want := []core.Holder{{SessionID: "s2", JobID: "j2", Agent: "writer", Status: "running", WriteScope: []string{"/w/src"}, Frees: "when the job ends"}}
	if diff := cmp.Diff(want, e.Holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}

// TestCounting: who is paused or suspended counts while its host or its engine
// lives; a detached session always does.
//
// Spec: R014, A006.
func TestCounting(t *testing.T) {
	t.Parallel()
	host, engine := store.Process{PID: 7, StartToken: "a", BootID: "b"}, store.Process{PID: 8, StartToken: "a", BootID: "b"}
	held := func(status string, class store.Class, units int, job string) store.Holder {
		return store.Holder{
			SessionID: "s", JobID: job, AgentRef: "ar_" + status + job, Status: status, Class: class, LockKey: "k", Units: units,
			Host: host, Engine: engine,
		}
	}
	paused := []store.Holder{held("paused", store.ClassLive, 2, ""), held("paused", store.ClassLive, 3, "j")}
	is := func(living ...store.Process) func(store.Process) bool {
		return func(p store.Process) bool {
			for _, l := range living {
				if l == p {
					return true
				}
			}
			return false
		}
	}
	for _, tt := range []struct {
		name  string
		list  []store.Holder
		alive func(store.Process) bool
		want  map[string]int
	}{
		{"both live", paused, is(host, engine), map[string]int{"k": 5}},
		{"the host alone", paused, is(host), map[string]int{"k": 5}},
		{"the engine alone", paused, is(engine), map[string]int{"k": 5}},
		{"another process of that number", paused, is(store.Process{PID: 7, StartToken: "z", BootID: "b"}), map[string]int{}},
		{"both dead", paused, is(), map[string]int{}},
		{"a detached session", []store.Holder{held("detached", store.ClassHeld, 2, "")}, is(), map[string]int{"k": 2}},
	} {
		if diff := cmp.Diff(tt.want, admission.Usage(admission.Counting(tt.list, tt.alive))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestContinue: a job without processes passes the limits again, and not itself.
func TestContinue(t *testing.T) {
	t.Parallel()
	own := store.Holder{SessionID: "s1", JobID: "j0", AgentRef: "ar_0", ProfileID: "p", Agent: "writer", Mode: "workspace-write", Scopes: []string{"/w/lib"}}
	for _, tt := range []struct {
		name   string
		change func(*admission.View)
		scope  string
		reason string
		text   string
	}{
		{"room", func(*admission.View) {}, "/w/lib", "", ""},
		{"itself", func(v *admission.View) { v.Holders = append(v.Holders, own); v.Limits.MaxActiveAgents = 2 }, "/w/lib", "", ""},
		{"the slots are taken", func(v *admission.View) { v.Limits.MaxActiveAgents = 1 }, "/w/lib", "active_agent_limit", "active-agent limit"},
		{"another session writes there", func(*admission.View) {}, "/w/src/a", "write_scope_conflict", "write scope conflicts"},
		{"the session ends", func(v *admission.View) { v.SessionStatus = core.SessionCancelling }, "/w/lib", "session_not_admitting", "not admitting"},
		{"its route is away", func(v *admission.View) { v.Agents["writer"] = admission.Agent{Unavailable: "no key"} }, "/w/lib", "route_unavailable", "no key"},
	} {
		v := view()
		tt.change(&v)
		_, err := admission.DecideContinue(v, "ar_0", write(tt.scope))
		var e *core.Error
		switch {
		case tt.reason == "" && err != nil:
			t.Errorf("%s: refused: %v", tt.name, err)
		case tt.reason != "" && (!errors.As(err, &e) || e.Reason != tt.reason || !strings.Contains(e.Message, tt.text)):
			t.Errorf("%s: %v, want a refusal by %s", tt.name, err, tt.reason)
		}
	}
}

// TestRoot: a root needs room in its resource, where it does not count itself.
func TestRoot(t *testing.T) {
	t.Parallel()
	holders := view().Holders
	one := admission.Resource{ID: "gpu", LockKey: "cards", Units: 1, Max: 1}
	if err := admission.DecideRoot(holders, "ar_r1", one); err != nil {
		t.Errorf("a root that has its unit already is refused: %v", err)
	}
	if err := admission.DecideRoot(holders, "ar_new", admission.Resource{}); err != nil {
		t.Errorf("a root without a resource is refused: %v", err)
	}
	checkRefusal(t, "a second root", admission.DecideRoot(holders, "ar_new", one), core.KindAdmission, "resource_limit", "resource group", "root of s1")
}
