package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// plant writes records as a session's supervisor would.
func plant(t *testing.T, p *patient, write func(*store.Tx) error) {
	t.Helper()
	st, err := store.Open(t.Context(), p.ground().Database(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Update(t.Context(), write), st.Close()); err != nil {
		t.Fatal(err)
	}
}

func session(id string, status core.SessionStatus) *store.Session {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &store.Session{SessionID: id, ProfileID: "demo", Status: status, RunSequence: 1, CreatedAt: now, LastActiveAt: now, RootAgentRef: "ar_" + id}
}

func only(t *testing.T, o outcome) Finding {
	t.Helper()
	if len(o.findings) != 1 {
		t.Fatalf("findings = %+v, want one", o.findings)
	}
	return o.findings[0]
}

func TestRecords(t *testing.T) {
	p, place := patientIn(t)
	assert(t, only(t, p.records(t.Context())), OK, "no session yet", "")
	if _, err := os.Lstat(p.ground().Database()); err == nil {
		t.Error("looking at no records made a database")
	}
	// None of these is to have a supervisor.
	plant(t, p, func(tx *store.Tx) error {
		return errors.Join(tx.PutSession(session("done", core.SessionCompleted)), tx.PutSession(session("rests", core.SessionPaused)),
			tx.PutSession(session("waits", core.SessionSuspended)))
	})
	assert(t, only(t, p.records(t.Context())), OK, "3 sessions, all readable", "")

	plant(t, p, func(tx *store.Tx) error { return tx.PutSession(session("works", core.SessionRunning)) })
	got := only(t, p.records(t.Context()))
	assert(t, got, Warning, "running and has no supervisor", "codex-mmo status works")
	if got.Check != "session works" {
		t.Errorf("check = %q, want the session named", got.Check)
	}
	if err := os.Mkdir(p.ground().RuntimeDir("works"), 0o700); err != nil {
		t.Fatal(err)
	}
	stop, err := (&standIn{}).serve(p.ground().ControlSocket("works"), "test") // a supervisor by its hello
	if err != nil {
		t.Fatal(err)
	}
	assert(t, only(t, p.records(t.Context())), OK, "4 sessions", "")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	silent, err := control.Listen(p.ground().ControlSocket("works")) // holds the socket and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	assert(t, only(t, p.records(t.Context())), Warning, "does not answer", "supervisor.log in "+filepath.Join(place.State, "sessions", "works"))
}

// Processes that outlived their session are named; those of a session at work
// and of no session here are not.
func TestLeftovers(t *testing.T) {
	p, place := patientIn(t)
	sleeper := role(t, place.Dir, "mcp-sleeper")
	start := func(mark string) process.Identity {
		child, err := process.Start(process.Spec{Path: sleeper, Env: []string{process.MarkEnv + "=" + mark}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = child.Kill()
			<-child.Done()
		})
		return child.Identity()
	}
	ref := "ar_" + filepath.Base(place.Dir) // nobody else's
	recorded, marked := start(""), start(ref+"/2")
	start(ref + "x/1")
	plant(t, p, func(tx *store.Tx) error {
		at := store.Process{PID: recorded.PID, StartToken: recorded.StartToken, BootID: recorded.BootID, Command: recorded.Command}
		ended := at
		ended.StartToken += "0" // another process that had the number
		return errors.Join(
			tx.PutSession(session("done", core.SessionStopped)), tx.PutSession(session("waits", core.SessionSuspended)),
			tx.PutLaunch(&store.Launch{LaunchID: "h1", SessionID: "done", Owner: "x", Role: "host", Process: at}),
			tx.PutLaunch(&store.Launch{LaunchID: "h2", SessionID: "done", Owner: "x", Role: "host", Process: ended}),
			tx.PutLaunch(&store.Launch{LaunchID: "h3", SessionID: "waits", Owner: "x", Role: "host", Process: at}),
			tx.PutAgentRun(&store.AgentRun{AgentRef: ref, SessionID: "done"}),
		)
	})
	list := p.records(t.Context()).findings
	if len(list) != 2 {
		t.Fatalf("findings = %+v, want the two that are left", list)
	}
	assert(t, list[0], Warning, fmt.Sprintf("(pid %d) lives on", recorded.PID), "codex-mmo status done")
	assert(t, list[1], Warning, fmt.Sprintf("(pid %d) lives on", marked.PID), "codex-mmo status done")
}

// Records that this build refuses are named and left as they are, and the
// others are looked at all the same.
func TestUnreadableRecords(t *testing.T) {
	p, place := patientIn(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plant(t, p, func(tx *store.Tx) error {
		return errors.Join(
			tx.PutSession(session("fine", core.SessionCompleted)), tx.PutSession(session("hurt", core.SessionCompleted)),
			tx.PutJob(&store.Job{JobID: "job-fine", SessionID: "fine", AgentRef: "ar_1", Agent: "reader", Mode: "read-only", Status: core.JobQueued, CreatedAt: now}),
			tx.PutJob(&store.Job{JobID: "job-hurt", SessionID: "fine", AgentRef: "ar_2", Agent: "reader", Mode: "read-only", Status: core.JobQueued, CreatedAt: now}),
		)
	})
	for _, dir := range []string{"sessions/fine", "sessions/hurt", "sessions/garbage", "jobs/job-fine", "jobs/job-hurt"} {
		if err := os.MkdirAll(filepath.Join(place.State, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, p.ground().Database(), `"session_id":"hurt"`, `"session_id":"hurT"`)
	damage(t, p.ground().Database(), `"job_id":"job-hurt"`, `"job_iX":"job-hurt"`)
	before, err := os.ReadFile(p.ground().Database())
	if err != nil {
		t.Fatal(err)
	}
	list := p.records(t.Context()).findings
	if len(list) != 2 {
		t.Fatalf("findings = %+v, want the two that are hurt", list)
	}
	assert(t, list[0], Warning, `session "hurt": session state identity mismatch`, "build that wrote it")
	assert(t, list[1], Warning, `job "job-hurt": job state has retired fields: job_iX`, "build that wrote it")
	if after, err := os.ReadFile(p.ground().Database()); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed (%v)", err)
	}
	if err := os.WriteFile(p.ground().Database(), []byte("no database at all, but long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	last := p.records(t.Context()).findings
	if got := last[len(last)-1]; got.Verdict != Failed || !strings.Contains(got.Reason, p.ground().Database()) {
		t.Errorf("a database that is none = %+v, want it named", got)
	}
}

// damage changes a record where it lies in the closed database.
func damage(t *testing.T, path, old, fresh string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(data, []byte(old)) != 1 || len(old) != len(fresh) {
		t.Fatalf("%s holds %q %d times, want once", path, old, bytes.Count(data, []byte(old)))
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(fresh), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestProfiles(t *testing.T) {
	p, place := patientIn(t)
	p.Bundled = profiles.FS
	list := p.profiles(t.Context()).findings
	if len(list) != 3 {
		t.Fatalf("profiles = %+v, want the login, the bundled ones and their routes", list)
	}
	assert(t, list[0], OK, "there is none", "")
	assert(t, list[1], OK, "10 teams", "")
	assert(t, list[2], Warning, "1 of 10 bundled teams have all they need: missing ChatGPT login", "codex login")
	own := filepath.Join(place.Config, "profiles")
	for _, id := range []string{"codex-harness-team", "offline-demo"} {
		from, err := fs.Sub(profiles.FS, id)
		if err := errors.Join(err, os.CopyFS(filepath.Join(own, id), from)); err != nil {
			t.Fatal(err)
		}
	}
	broken := filepath.Join(own, "broken")
	if err := errors.Join(os.Mkdir(broken, 0o700), os.WriteFile(filepath.Join(broken, "profile.toml"), []byte("colour = 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	// What is no profile is not judged as one: a note, and what a killed clone left.
	if err := errors.Join(os.WriteFile(filepath.Join(own, "notes.txt"), nil, 0o600), os.Mkdir(filepath.Join(own, ".codex-mmo-draft-1"), 0o700)); err != nil {
		t.Fatal(err)
	}
	more := p.profiles(t.Context()).findings[len(list):]
	if len(more) != 5 {
		t.Fatalf("profiles of the user = %+v, want the broken one and two copies with their routes", more)
	}
	if got := more[0]; got.Check != "own broken" || got.Verdict != Failed || !strings.Contains(got.Reason, "colour") {
		t.Errorf("finding = %+v, want the unknown key named", got)
	}
	assert(t, more[1], OK, "agents led by integrator", "")
	assert(t, more[2], Warning, "integrator: missing ChatGPT login", "codex login")
	assert(t, more[4], OK, "every role", "")
	login := filepath.Join(place.Home, ".codex")
	if err := errors.Join(os.Mkdir(login, 0o700), os.WriteFile(filepath.Join(login, "auth.json"), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{broken: "colour", "no-such-team": "no-such-team"} {
		p.Profile = name
		named := p.profiles(t.Context()).findings
		if len(named) != 2 || named[1].Check != name {
			t.Fatalf("profiles = %+v, want the login and the named profile alone", named)
		}
		assert(t, named[0], OK, login+": homes share the ChatGPT login by a link", "")
		assert(t, named[1], Failed, reason, "")
	}
	if err := os.WriteFile(filepath.Join(place.Config, "settings.toml"), []byte("auth_link_mode = \"copy\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = newPatient(p.Input)
	assert(t, p.judgeLogin(), Warning, "homes have copies of the ChatGPT login", "shared")
	p.Profile, p.ground = "", noGround
	last := p.profiles(t.Context()).findings
	assert(t, last[len(last)-1], Warning, "needs the folders", "again")
}

func TestGit(t *testing.T) {
	p, place := patientIn(t)
	env := map[string]string{"PATH": os.Getenv("PATH")}
	p.Getenv = func(name string) string { return env[name] }
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", place.Workspace, "-c", "user.name=T", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + place.Home, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	look := func() (Finding, Finding) {
		t.Helper()
		list := p.git(t.Context()).findings
		if len(list) != 2 {
			t.Fatalf("git = %+v, want two findings", list)
		}
		return list[0], list[1]
	}
	program, workspace := look()
	assert(t, program, OK, "version 2", "")
	assert(t, workspace, Warning, place.Workspace+" is not inside a git repository", "git init")
	git("init", "--quiet")
	_, workspace = look()
	assert(t, workspace, Warning, "has no commit", "first commit")
	git("commit", "--quiet", "--allow-empty", "-m", "x")
	p.Cwd = filepath.Join(place.Workspace, "below")
	if err := os.Mkdir(p.Cwd, 0o700); err != nil {
		t.Fatal(err)
	}
	_, workspace = look()
	assert(t, workspace, OK, "repository "+place.Workspace+" at commit ", "")

	env["PATH"] = place.Dir + ":relative"
	program, workspace = look()
	assert(t, program, Failed, "not on PATH", "install git")
	assert(t, workspace, Warning, "not checked", "again")
	for script, want := range map[string]string{
		"#!/bin/sh\necho git version 2.17.1\n":     "2.17.1",
		"#!/bin/sh\necho broken >&2\nexit 3\n":     "broken",
		"#!/nowhere/interpreter\necho git version": "does not run",
	} {
		if err := os.WriteFile(filepath.Join(place.Dir, "git"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		program, _ = look()
		assert(t, program, Failed, want, "install git")
	}
}

// A whole run without a Codex and with a home that can't be used: it says what
// failed, checks the rest and stays within its time.
func TestRunOnBadGround(t *testing.T) {
	place := testkit.NewPlace(t)
	env := map[string]string{"PATH": os.Getenv("PATH"), "MMO_CODEX_BIN": "/nowhere/codex"}
	r := Run(t.Context(), &Input{
		Getenv: func(name string) string { return env[name] }, Cwd: place.Workspace, Bundled: profiles.FS,
		Binary: role(t, place.Dir, "mcp-good"), Build: "test", Random: ownPID{},
	})
	want := map[string]Verdict{
		"machine platform": OK, "machine free space": Warning, "folders roots": Failed, "folders socket paths": Warning,
		"git git": OK, "git workspace": Warning, "codex binary": Failed, "codex gate": Warning, "sandbox mmo-ro": Warning,
		"sandbox mmo-rw": Warning, "profiles bundled": OK, "mcp handshake": Warning, "records store": Warning,
	}
	got := map[string]Finding{}
	for _, f := range r.Findings {
		got[f.Group+" "+f.Check] = f
	}
	for name, verdict := range want {
		if got[name].Verdict != verdict {
			t.Errorf("%s = %+v, want %s", name, got[name], verdict)
		}
	}
	if r.OK || r.Codex != nil || r.MCP != nil || r.ElapsedSeconds <= 0 || r.ElapsedSeconds > DefaultLimit.Seconds()+1 {
		t.Errorf("report = %+v, want one that failed in time", r)
	}
	if !strings.Contains(got["folders roots"].Reason, "HOME") || !strings.Contains(got["codex binary"].Reason, "/nowhere/codex") {
		t.Errorf("findings = %+v, want HOME and the missing Codex named", got)
	}
}
