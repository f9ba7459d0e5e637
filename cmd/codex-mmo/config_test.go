package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// remoteRoute is a route that needs a key which is not there.
const remoteRoute = `
[routes.remote]
name = "Remote"
driver = "openai_chat"
wire_protocol = "openai_chat"
billing_mode = "api"
base_url = "https://api.example.org/v1"
credential_env = "OPENCODE_API_KEY"
`

// spawnsScript has the lead spawn the worker and end, and end again once it is
// told of the worker.
const spawnsScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "look"}
  step
    say "END"
  step
    say "END"

model m-worker
  step
    say "DONE"
`

// another is a further session in the team's place.
func (tm *team) another() *team {
	tm.t.Helper()
	other := &team{
		t: tm.t, place: tm.place, folders: tm.folders, exited: make(chan struct{}),
		seen: map[process.Identity]string{}, secrets: map[string]bool{},
	}
	tm.t.Cleanup(other.cleanUp)
	return other
}

// edit replaces a text in a file of the team's profile.
func (tm *team) edit(name, from, to string) {
	tm.t.Helper()
	path := filepath.Join(tm.profileDir(), name)
	raw, err := os.ReadFile(path)
	if err != nil {
		tm.t.Fatal(err)
	}
	if !strings.Contains(string(raw), from) {
		tm.t.Fatalf("%s has no %q", name, from)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(raw), from, to, 1)), 0o600); err != nil {
		tm.t.Fatal(err)
	}
}

// configure writes a file of the user's configuration.
func (tm *team) configure(name, text string) {
	tm.t.Helper()
	path := filepath.Join(tm.place.Config, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tm.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tm.t.Fatal(err)
	}
}

// rootTrail is everything that the root's engine said and was told.
func (tm *team) rootTrail() string {
	tm.t.Helper()
	raw, err := os.ReadFile(filepath.Join(tm.folders.SessionDir(tm.session), "root-events.jsonl"))
	if err != nil {
		tm.t.Fatal(err)
	}
	return string(raw)
}

func (tm *team) jobs() (list []*store.Job) {
	tm.t.Helper()
	tm.view(func(tx *store.Tx) (err error) {
		list, err = tx.Jobs(store.JobFilter{SessionID: tm.session, Strict: true})
		return err
	})
	return list
}

// A credential that is missing, or empty, takes only the roles on its route out
// of use: the session works, and a spawn of such a role is refused with the
// reason, without a job.
//
// Spec: R040
func TestMissingCredentialDegradesItsRoles(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, spawnsScript, 3)
	tm.edit("catalog.toml", "[models.m-worker]\nroute = \"offline\"", remoteRoute+"\n[models.m-worker]\nroute = \"remote\"")
	tm.configure("credentials.env", "OPENCODE_API_KEY=\n")
	tm.startWith([]string{"OPENCODE_API_KEY="}, "exec", tm.profileDir(), "go", "--json")
	out := tm.finish()
	if out.Status != "completed" || out.Result != "END" {
		t.Fatalf("exec ended %s with %q", out.Status, out.Result)
	}
	want := map[string]control.RouteAvailability{
		"offline": {Available: true}, "remote": {Reason: "missing credential OPENCODE_API_KEY"},
	}
	if diff := cmp.Diff(want, out.Session.RouteAvailability); diff != "" {
		t.Errorf("the routes (-want +got):\n%s", diff)
	}
	if jobs := tm.jobs(); len(jobs) > 0 {
		t.Errorf("there are jobs: %+v", jobs)
	}
	for _, word := range []string{"AdmissionError", "route_unavailable", "missing credential OPENCODE_API_KEY"} {
		if !strings.Contains(tm.rootTrail(), word) {
			t.Errorf("the lead was not told %q", word)
		}
	}
	tm.assertGone()
}

// A session that is told to do without a route says so and refuses what needs
// it; another session of the same team is healthy, on the same gateway.
//
// Spec: R041
func TestRouteFaultsAreTheSessionsOwn(t *testing.T) {
	t.Parallel()
	slow := strings.Replace(spawnsScript, "  step\n    say \"END\"", "  step\n    delay 4s\n    say \"END\"", 1)
	tm := newTeam(t, slow, 3)
	tm.edit("catalog.toml", "[models.m-worker]\nroute = \"offline\"", strings.Replace(teamCatalog, "schema_version = 2\n\n[routes.offline]", "[routes.other]", 1)+"\n[models.m-worker]\nroute = \"other\"")
	tm.start("go", "--route-fault", "other=rate_limit")
	tm.await("the root's turn", func(e control.FollowEvent) bool { return e.Type == "turn" })
	faulted := tm.process("gateway", false)

	healthy := tm.another()
	healthy.start("go")
	healthy.await("the worker's end", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "completed" })
	if other := healthy.process("gateway", false); other.PID != faulted.PID {
		t.Errorf("the healthy session has gateway %d, the other one %d", other.PID, faulted.PID)
	}
	if out := healthy.finish(); out.Status != "completed" || len(out.Session.RouteFaults) != 0 || !out.Session.RouteAvailability["other"].Available {
		t.Errorf("the healthy session ended %s with routes %+v", out.Status, out.Session.RouteAvailability)
	}
	out := tm.finish()
	want := control.RouteAvailability{Reason: "injected route fault: rate_limit", Fault: "rate_limit"}
	if diff := cmp.Diff(want, out.Session.RouteAvailability["other"]); diff != "" {
		t.Errorf("the route (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"other": "rate_limit"}, out.Session.RouteFaults); diff != "" {
		t.Errorf("route_faults (-want +got):\n%s", diff)
	}
	if jobs := tm.jobs(); len(jobs) > 0 || !strings.Contains(tm.rootTrail(), "injected route fault: rate_limit") {
		t.Errorf("there are jobs %+v, or the lead was not told", jobs)
	}
	tm.view(func(tx *store.Tx) error {
		rec, err := tx.Session(healthy.session)
		if err == nil && (rec.RouteFaults == nil || len(rec.RouteFaults) > 0) {
			t.Errorf("the healthy session has route_faults %#v, want an empty map", rec.RouteFaults)
		}
		return err
	})
	tm.assertGone()
	healthy.assertGone()
}

// A session can be made from a kept snapshot when the profile's folder is gone.
//
// Spec: R019
func TestSessionFromASnapshotAlone(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, spawnsScript, 3)
	tm.start("go")
	first := tm.finish()
	if err := os.RemoveAll(tm.profileDir()); err != nil {
		t.Fatal(err)
	}
	again := tm.another()
	again.startWith(nil, "exec", "go", "--json", "--snapshot", first.Session.SnapshotHash)
	out := again.finish()
	if out.Status != "completed" || out.Session.SnapshotHash != first.Session.SnapshotHash || out.Session.ProfileID != "test-team" || out.Session.SessionID == first.Session.SessionID {
		t.Errorf("the second session is %+v, ended %s", out.Session, out.Status)
	}
	_, errs, code := again.run("exec", "test-team", "go", "--snapshot", first.Session.SnapshotHash)
	if code != 1 || !strings.Contains(errs, "cannot be combined") {
		t.Errorf("a profile with a snapshot: exit %d, %s", code, errs)
	}
	again.assertGone()
}

// A root whose role is read-only can't be made to write: the refusal names the
// session that is on record as failed, and there is no other.
//
// Spec: R050
func TestReadOnlyRootCannotBeEscalated(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, spawnsScript, 3)
	out, _, code := tm.run("exec", tm.profileDir(), "go", "--json", "--sandbox", "workspace-write")
	var refused struct {
		Error control.ErrorView `json:"error"`
	}
	if err := json.Unmarshal([]byte(out), &refused); err != nil {
		t.Fatalf("exec printed %q: %v", out, err)
	}
	e := refused.Error
	if code != 1 || e.Kind != "PermissionError" || !strings.Contains(e.Message, "permanently read-only") || e.SessionStatus != "failed" || e.SessionID == "" {
		t.Errorf("exec exited %d with %+v", code, e)
	}
	tm.view(func(tx *store.Tx) error {
		list, err := tx.Sessions(store.SessionFilter{Strict: true})
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].SessionID != e.SessionID || list[0].Status != "failed" {
			t.Errorf("the sessions are %+v", list)
		}
		run, err := tx.RunOf(e.SessionID)
		if err == nil && run.Status != "failed" {
			t.Errorf("its run is %s", run.Status)
		}
		return err
	})
}

// The active profile decides for new sessions that name none; sessions that are
// there keep theirs.
//
// Spec: A087
func TestActiveProfileIsOfNewSessions(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, spawnsScript, 3)
	if err := os.MkdirAll(filepath.Join(tm.place.Config, "profiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", "second"} {
		if out, errs, code := tm.run("profile", "clone", tm.profileDir(), id); code != 0 {
			t.Fatalf("clone: %s%s", out, errs)
		}
	}
	var ids, hashes []string
	for _, id := range []string{"first", "second"} {
		if out, errs, code := tm.run("profile", "use", id); code != 0 {
			t.Fatalf("use: %s%s", out, errs)
		}
		one := tm.another()
		one.startWith(nil, "exec", "go", "--json")
		out := one.finish()
		if out.Status != "completed" || out.Session.ProfileID != id {
			t.Errorf("with %s active the session is of %s, ended %s", id, out.Session.ProfileID, out.Status)
		}
		ids, hashes = append(ids, out.Session.SessionID), append(hashes, out.Session.SnapshotHash)
	}
	tm.session = ids[0]
	if view := tm.stored(); view.ProfileID != "first" || view.SnapshotHash != hashes[0] || hashes[0] == hashes[1] {
		t.Errorf("the first session has profile %s and snapshot %s now", view.ProfileID, view.SnapshotHash)
	}
}

// The Codex that the settings name is pinned for root and workers, whatever the
// settings say later.
//
// Spec: R111
func TestCodexOfTheSettingsIsPinned(t *testing.T) {
	t.Parallel()
	late := strings.Replace(spawnsScript, "  step\n    call mcp__mmo_mesh agent_spawn", "  step\n    delay 2s\n    call mcp__mmo_mesh agent_spawn", 1)
	tm := newTeam(t, strings.Replace(late, "  step\n    say \"DONE\"", "  step\n    delay 2s\n    say \"DONE\"", 1), 3)
	codex := testkit.Codex(t)
	link := filepath.Join(tm.place.Home, "my-codex")
	if err := os.Symlink(codex, link); err != nil {
		t.Fatal(err)
	}
	tm.configure("settings.toml", "codex_bin = \""+link+"\"\n")
	tm.startWith([]string{"MMO_CODEX_BIN="}, "exec", tm.profileDir(), "go", "--json")
	tm.configure("settings.toml", "codex_bin = \"/nowhere/codex\"\n")
	tm.await("the worker's turn", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Type == "turn" })
	engines := 0
	for _, p := range tm.look().Processes {
		if p.Role != "app-server" {
			continue
		}
		engines++
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); err != nil || exe != codex {
			t.Errorf("an engine runs %s, %v, want %s", exe, err, codex)
		}
	}
	if engines != 2 {
		t.Errorf("%d engines were seen, want the root's and the worker's", engines)
	}
	if out := tm.finish(); out.Status != "completed" {
		t.Errorf("exec ended %s", out.Status)
	}
	tm.view(func(tx *store.Tx) error {
		rec, err := tx.Session(tm.session)
		if err == nil && rec.Codex.Path != codex {
			t.Errorf("the session is pinned to %s, want %s", rec.Codex.Path, codex)
		}
		return err
	})
	tm.assertGone()
}

// directRoute is a route that Codex reaches by itself, with a secret header.
const directRoute = `
[routes.direct]
name = "Direct"
driver = "codex_custom"
wire_protocol = "openai_responses"
billing_mode = "local"
base_url = "%URL%"
credential_env = "EXAMPLE_API_KEY"
env_http_headers = { "X-Example" = "EXAMPLE_HEADER_SECRET" }
`

// The secrets of a route that Codex reaches by itself are given to the engine of
// the agent on it, and to nothing else. The environment goes before
// credentials.env, an empty value counts as none, and a value that can't be sent
// is refused.
//
// Spec: R042
func TestHeaderSecretReachesItsEngineAlone(t *testing.T) {
	t.Parallel()
	script, err := modeltest.Parse("model m-worker\n  step\n    delay 2s\n    say \"DONE\"\n")
	if err != nil {
		t.Fatal(err)
	}
	const key, header = "key-of-the-direct-route-0123456789", "secret-of-the-header-0123456789"
	server, err := modeltest.NewServer(t.Context(), script, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	waits := strings.Replace(spawnsScript, "  step\n    say \"END\"", "  step\n    call mcp__mmo_mesh agents_wait {\"job_ids\": [\"${job_id 1}\"], \"timeout_seconds\": 60}\n  step\n    say \"END\"", 1)
	tm := newTeam(t, waits, 3)
	tm.edit("catalog.toml", "[models.m-worker]\nroute = \"offline\"", strings.Replace(directRoute, "%URL%", server.URL, 1)+"\n[models.m-worker]\nroute = \"direct\"")
	tm.configure("credentials.env", "EXAMPLE_API_KEY=not-this-one\nEXAMPLE_HEADER_SECRET="+header+"\n")
	tm.startWith([]string{"EXAMPLE_API_KEY=" + key, "EXAMPLE_HEADER_SECRET="}, "exec", tm.profileDir(), "go", "--json")
	tm.await("the worker's turn", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Type == "turn" })
	worker, lead := environ(t, tm.process("app-server", true)), environ(t, tm.process("app-server", false))
	if worker["EXAMPLE_API_KEY"] != key || worker["EXAMPLE_HEADER_SECRET"] != header || worker["MMO_GATEWAY_TOKEN"] != "" {
		t.Errorf("the worker's engine has key %q, header %q, bearer %t", worker["EXAMPLE_API_KEY"], worker["EXAMPLE_HEADER_SECRET"], worker["MMO_GATEWAY_TOKEN"] != "")
	}
	if lead["EXAMPLE_API_KEY"] != "" || lead["EXAMPLE_HEADER_SECRET"] != "" || lead["MMO_GATEWAY_TOKEN"] == "" {
		t.Error("the lead's engine has a secret of the worker's route, or no bearer")
	}
	view := tm.look()
	if home := view.Homes["worker"]; !slices.Equal(home.DirectHeaderEnvs, []string{"EXAMPLE_HEADER_SECRET"}) {
		t.Errorf("direct_header_envs of the worker are %v", home.DirectHeaderEnvs)
	}
	if len(view.ProfileWarnings) != 1 || !strings.Contains(view.ProfileWarnings[0], "EXAMPLE_API_KEY, EXAMPLE_HEADER_SECRET") {
		t.Errorf("profile_warnings are %q", view.ProfileWarnings)
	}
	if out := tm.finish(); out.Status != "completed" || out.Result != "END" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	if sent := server.Engine.Requests(); len(sent) == 0 || sent[0].Header.Get("X-Example") != header {
		t.Errorf("the provider got %d requests, the first without the header", len(sent))
	}
	secrets := []string{key, header}
	allowed, err := filepath.Rel(tm.place.Dir, filepath.Join(tm.place.Config, "credentials.env"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.AssertNoSecret(t, tm.place.Dir, secrets, allowed)
	testkit.AssertNoSecretInArgv(t, secrets)
	tm.assertGone()

	bad := tm.another()
	bad.startWith([]string{"EXAMPLE_API_KEY=" + key, "EXAMPLE_HEADER_SECRET=two\nlines"}, "exec", tm.profileDir(), "go", "--json")
	bad.finish()
	if trail := bad.rootTrail(); !strings.Contains(trail, "EXAMPLE_HEADER_SECRET holds a prohibited control character") || strings.Contains(trail, "two\\nlines") {
		t.Error("a header of two lines was not refused, or its value was told")
	}
	bad.assertGone()
}

func environ(t *testing.T, id process.Identity) map[string]string {
	t.Helper()
	env, err := process.Environ(id.PID)
	if err != nil {
		t.Fatal(err)
	}
	return env
}
