package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// team is one run of `codex-mmo exec` on real Codex with scripted models, seen
// from outside as its operator sees it.
type team struct {
	t       *testing.T
	place   *testkit.Place
	folders folders.Folders
	session string
	client  *control.Client

	cmd     *exec.Cmd
	stdout  bytes.Buffer
	exited  chan struct{}
	screens int   // terminals that were opened
	err     error // of the exec command; read after exited

	mu      sync.Mutex
	seen    map[process.Identity]string // identity -> role, of every process that was ever listed
	secrets map[string]bool             // raw tokens found in the engines' environments
	stderr  strings.Builder
}

// teamProfile is the profile of a lead and one worker, both on the offline
// route.
const teamProfile = `schema_version = 2
id = "%[1]s"
version = "1.0.0"
description = "A lead and a worker for a test."
root_agent = "lead"

[coordination]
max_depth = 1
max_active_agents = 4
max_active_writers = 1

[agents.lead]
model = "m-lead"
description = "Leads."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = ["worker", "writer"]
backends = []
max_recovery_attempts = %[2]d
guidance = "guidance/lead.md"

[agents.worker]
model = "m-worker"
description = "Works."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = []
backends = ["mcp"]
max_recovery_attempts = %[2]d
guidance = "guidance/worker.md"

[agents.writer]
model = "m-writer"
description = "Writes."
permissions = "workspace-write"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = []
backends = ["mcp"]
max_recovery_attempts = %[2]d
guidance = "guidance/worker.md"
`

const teamCatalog = `schema_version = 2

[routes.offline]
name = "Scripted, offline"
driver = "offline"
wire_protocol = "openai_chat"
billing_mode = "scripted"
script = "offline.script"
`

const teamModel = `
[models.%[1]s]
route = "offline"
upstream_id = "%[1]s"
maker = "scripted"
modalities = ["text"]
reasoning_levels = ["none"]
default_reasoning = "none"
context_window = 128000
base_instructions = "You are a coding agent."
`

// newTeam prepares a place, a workspace and a profile that plays the script.
func newTeam(t *testing.T, script string, recoveries int) *team {
	t.Helper()
	tm := &team{
		t: t, place: testkit.NewPlace(t), exited: make(chan struct{}),
		seen: map[process.Identity]string{}, secrets: map[string]bool{},
	}
	tm.folders = folders.Folders{Config: tm.place.Config, State: tm.place.State, Runtime: tm.place.Runtime}
	gitInit(t, tm.place.Workspace)
	dir := tm.profileDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("profile.toml", fmt.Sprintf(teamProfile, "test-team", recoveries))
	write("catalog.toml", teamCatalog+fmt.Sprintf(teamModel, "m-lead")+fmt.Sprintf(teamModel, "m-worker")+fmt.Sprintf(teamModel, "m-writer"))
	write("guidance/lead.md", "Lead.\n")
	write("guidance/worker.md", "Work.\n")
	write("offline.script", script)
	t.Cleanup(func() {
		tm.cleanUp()
		testkit.AssertLogsClean(t, tm.place.State)
	})
	return tm
}

func (tm *team) profileDir() string { return filepath.Join(tm.place.Dir, "test-team") }

func gitInit(t testing.TB, dir string) {
	t.Helper()
	cmd := exec.Command("git", "init", "--quiet", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
}

var sessionLine = regexp.MustCompile(`session (\S+) starts`)

// start runs `codex-mmo exec --json` and returns once the session is known.
func (tm *team) start(prompt string, more ...string) {
	tm.t.Helper()
	tm.startWith(nil, append([]string{"exec", tm.profileDir(), prompt, "--json"}, more...)...)
}

// startWith is start with the whole command line, and with variables over those
// of the place.
func (tm *team) startWith(env []string, args ...string) {
	tm.t.Helper()
	tm.cmd = tm.place.Command(tm.t, args...)
	tm.cmd.Env = append(tm.cmd.Env, env...)
	tm.cmd.Stdout = &tm.stdout
	pipe, err := tm.cmd.StderrPipe()
	if err != nil {
		tm.t.Fatal(err)
	}
	if err := tm.cmd.Start(); err != nil {
		tm.t.Fatal(err)
	}
	known := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			tm.mu.Lock()
			fmt.Fprintln(&tm.stderr, lines.Text())
			tm.mu.Unlock()
			if m := sessionLine.FindStringSubmatch(lines.Text()); m != nil {
				known <- m[1]
			}
		}
		_, _ = io.Copy(io.Discard, pipe)
		tm.err = tm.cmd.Wait()
		close(tm.exited)
	}()
	select {
	case session := <-known:
		tm.dial(session)
	case <-tm.exited:
		tm.t.Fatalf("exec ended before its session was known: %v\n%s%s", tm.err, tm.log(), tm.stdout.String())
	}
}

// dial makes the team's session the one with this id.
func (tm *team) dial(session string) {
	tm.session = session
	tm.client = control.Dial(tm.folders.ControlSocket(tm.session), &control.ClientOptions{Build: "test", Retry: testkit.Patience})
}

func (tm *team) log() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.stderr.String()
}

// await follows the session until an event satisfies want.
func (tm *team) await(what string, want func(control.FollowEvent) bool) control.FollowEvent {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	found := errors.New("found")
	var event control.FollowEvent
	for seq := uint64(0); ; {
		err := tm.client.Follow(ctx, control.Meta{}, control.FollowRequest{AfterSeq: seq}, func(e control.FollowEvent) error {
			if seq = max(seq, e.Seq); want(e) {
				event = e
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return event
		}
		if ctx.Err() != nil || chanClosed(tm.exited) {
			tm.t.Fatalf("%s never came: %v\n%s", what, err, tm.log())
		}
	}
}

// awaitWorkerShell waits until the worker's turn runs a shell command.
func (tm *team) awaitWorkerShell() {
	tm.t.Helper()
	tm.await("the worker's command", func(e control.FollowEvent) bool {
		return e.Agent == "worker" && strings.HasPrefix(e.Text, "runs ")
	})
}

// look asks the supervisor for the session and notes its processes and tokens,
// which no command line may show.
func (tm *team) look() *control.SessionView {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	view, err := tm.client.Session(ctx, control.Meta{})
	if err != nil {
		tm.t.Fatalf("asking for the session: %v\n%s", err, tm.log())
	}
	for _, p := range view.Processes {
		id, err := process.Lookup(p.PID)
		if err != nil {
			continue
		}
		tm.seen[id] = p.Role
		if p.Role != "app-server" {
			continue
		}
		env, err := process.Environ(p.PID)
		if err != nil {
			continue
		}
		for _, name := range []string{"MMO_CALLER_TOKEN", "MMO_GATEWAY_TOKEN"} {
			if env[name] != "" {
				tm.secrets[env[name]] = true
			}
		}
	}
	testkit.AssertNoSecretInArgv(tm.t, tm.tokens())
	return view
}

// tokens lists the raw tokens that were seen.
func (tm *team) tokens() []string { return slices.Collect(maps.Keys(tm.secrets)) }

// assertNoToken fails when a token lies on disk or in a command line, but for
// what is allowed, or when none was ever seen.
func (tm *team) assertNoToken(allowed ...string) {
	tm.t.Helper()
	if len(tm.secrets) == 0 {
		tm.t.Error("no token was seen in any engine's environment: the sweep for secrets proves nothing")
	}
	testkit.AssertNoSecret(tm.t, tm.place.Dir, tm.tokens(), allowed...)
	testkit.AssertNoSecretInArgv(tm.t, tm.tokens())
}

// process returns the process with a role that works for the root, or for the
// one job.
func (tm *team) process(role string, ofWorker bool) process.Identity {
	tm.t.Helper()
	view := tm.look()
	worker := ""
	if len(view.Jobs) > 0 {
		worker = view.Jobs[0].AgentRunRef
	}
	for _, p := range view.Processes {
		if p.Role != role || strings.HasPrefix(p.Owner, "ar_") && (p.Owner == worker) != ofWorker {
			continue
		}
		id, err := process.Lookup(p.PID)
		if err != nil {
			tm.t.Fatalf("the %s %d can't be looked up: %v", role, p.PID, err)
		}
		return id
	}
	tm.t.Fatalf("no process with role %s (of the worker: %v) among %+v", role, ofWorker, view.Processes)
	return process.Identity{}
}

// mcpOfRoot returns the MCP process that the root's engine started.
func (tm *team) mcpOfRoot() process.Identity {
	tm.t.Helper()
	list, err := process.Descendants(tm.process("app-server", false))
	if err != nil {
		tm.t.Fatal(err)
	}
	for _, id := range list {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
		if err == nil && bytes.HasSuffix(raw, []byte("codex-mmo\x00mcp\x00")) {
			tm.seen[id] = "mcp"
			return id
		}
	}
	tm.t.Fatalf("the root's engine has no MCP process among %+v", list)
	return process.Identity{}
}

// outcome is what `exec --json` printed.
type outcome struct {
	Session  control.SessionView `json:"session"`
	Status   string              `json:"status"`
	ExitCode int                 `json:"exit_code"`
	Result   string              `json:"result"`
}

// finish waits for exec to end and returns what it printed.
func (tm *team) finish() outcome {
	tm.t.Helper()
	testkit.Await(tm.t, tm.exited, "the end of exec")
	var out outcome
	if err := json.Unmarshal(tm.stdout.Bytes(), &out); err != nil {
		tm.t.Fatalf("exec printed no JSON (%v): %s\n%s", tm.err, tm.stdout.String(), tm.log())
	}
	return out
}

// run runs another command in the team's place and returns its output.
func (tm *team) run(args ...string) (stdout, stderr string, code int) {
	tm.t.Helper()
	cmd := tm.place.Command(tm.t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tm.t.Fatalf("codex-mmo %v: %v", args, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// store opens the team's records.
func (tm *team) view(fn func(tx *store.Tx) error) {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	st, err := store.Open(ctx, tm.folders.Database(), nil)
	if err != nil {
		tm.t.Fatal(err)
	}
	defer st.Close()
	if err := st.View(ctx, fn); err != nil {
		tm.t.Fatal(err)
	}
}

// assertSentOnce proves from the ledger and from the wire that no input went
// out in two turn/start requests.
func (tm *team) assertSentOnce() {
	tm.t.Helper()
	tm.view(func(tx *store.Tx) error {
		runs, err := tx.AgentRuns(tm.session)
		if err != nil {
			return err
		}
		for _, run := range runs {
			sent := sentInputs(tm.t, tm.trail(run))
			inputs, err := tx.Inputs(run.AgentRef)
			if err != nil {
				return err
			}
			for _, in := range inputs {
				if sent[in.InputID] > 1 {
					tm.t.Errorf("input %s of %s went out in %d turn/start requests, want one", in.InputID, run.Agent, sent[in.InputID])
				}
				if in.State == store.InputTurnDone && sent[in.InputID] != 1 {
					tm.t.Errorf("input %s of %s is %s and stands %d times on the wire, want once", in.InputID, run.Agent, in.State, sent[in.InputID])
				}
				delete(sent, in.InputID)
			}
			if len(sent) > 0 {
				tm.t.Errorf("agent %s was sent inputs that are not in the ledger: %v", run.Agent, sent)
			}
		}
		return nil
	})
}

func (tm *team) trail(run *store.AgentRun) string {
	if run.JobID == "" {
		return filepath.Join(tm.folders.SessionDir(tm.session), "root-events.jsonl")
	}
	return filepath.Join(tm.folders.JobDir(run.JobID), "events.jsonl")
}

// sentInputs counts the turn/start requests on the wire by their client id.
func sentInputs(t *testing.T, path string) map[string]int {
	t.Helper()
	counts := map[string]int{} // input id -> requests
	for _, row := range rows(t, path) {
		if row.Direction == "sent" && row.Message.Method == "turn/start" {
			counts[row.Message.Params.ClientUserMessageID]++
		}
	}
	return counts
}

// row is one line of an events file.
type row struct {
	Gen       uint64 `json:"gen"`
	Seq       uint64 `json:"seq"`
	Direction string `json:"direction"`
	Message   struct {
		Method string `json:"method"`
		Params struct {
			ClientUserMessageID string `json:"clientUserMessageId"`
		} `json:"params"`
	} `json:"message"`
}

// rows reads an events file and checks that its positions only grow.
func rows(t *testing.T, path string) []row {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []row
	for line := range bytes.Lines(raw) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v in %.200s", path, err, line)
		}
		if n := len(list); n > 0 && (r.Gen < list[n-1].Gen || r.Gen == list[n-1].Gen && r.Seq <= list[n-1].Seq) {
			t.Errorf("%s: row %d/%d follows %d/%d", path, r.Gen, r.Seq, list[n-1].Gen, list[n-1].Seq)
		}
		list = append(list, r)
	}
	return list
}

// assertClean makes the sweeps: no process of the session and no sandbox lives,
// no token lies on disk or in a command line, no mode is too wide, no log tells
// of a crash or a data race. A session that may be resumed keeps its root's
// token, in one place, which is to be allowed.
func (tm *team) assertClean(allowed ...string) {
	tm.t.Helper()
	tm.assertGone()
	tm.assertNoToken(allowed...)
	// What Codex itself writes into a home has the modes of its umask; the
	// home's own folder, which is 0700, keeps others out.
	homes := filepath.Join("sessions", tm.session, "homes")
	testkit.AssertModes(tm.t, tm.place.State, filepath.Join(homes, "lead"), filepath.Join(homes, "worker"), filepath.Join(homes, "writer"), filepath.Join(homes, "terminal"),
		"worktrees", "git") // a writer's files have the modes that git gives them
	testkit.AssertModes(tm.t, tm.place.Runtime)
	testkit.AssertLogsClean(tm.t, tm.place.State)
}

// assertGone proves that nothing of the session lives, and no sandbox in its
// place.
func (tm *team) assertGone() {
	tm.t.Helper()
	for id := range tm.seen {
		testkit.AwaitGone(tm.t, id)
	}
	var refs []string
	tm.view(func(tx *store.Tx) error {
		runs, err := tx.AgentRuns(tm.session)
		for _, run := range runs {
			refs = append(refs, run.AgentRef)
		}
		return err
	})
	testkit.AssertNoMarked(tm.t, testkit.MarkOf(refs...))
	testkit.AssertNoSandbox(tm.t, tm.place.Dir)
}

// cleanUp ends what a failed test left.
func (tm *team) cleanUp() {
	if tm.session == "" {
		return
	}
	if tm.t.Failed() {
		raw, _ := os.ReadFile(filepath.Join(tm.folders.SessionDir(tm.session), "supervisor.log"))
		tm.t.Logf("exec said:\n%s\nsupervisor.log:\n%s", tm.log(), raw)
	}
	if tm.t.Failed() || !chanClosed(tm.exited) { // a suspended session has no exec command and may have an engine
		cmd := tm.place.Command(tm.t, "stop", tm.session)
		_ = cmd.Run() // best effort: the test has failed already
	}
}

func chanClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stored reads the session as `codex-mmo status --json` prints it.
func (tm *team) stored() *control.SessionView {
	tm.t.Helper()
	out, errs, code := tm.run("status", tm.session, "--json")
	if code != 0 {
		tm.t.Fatalf("status exited %d: %s", code, errs)
	}
	var view control.SessionView
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		tm.t.Fatalf("status printed %q: %v", out, err)
	}
	return &view
}

// assertInputs compares an agent's ledger with "origin state" lines.
func (tm *team) assertInputs(agent string, want ...string) {
	tm.t.Helper()
	var got []string
	tm.view(func(tx *store.Tx) error {
		runs, err := tx.AgentRuns(tm.session)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if run.Agent != agent {
				continue
			}
			inputs, err := tx.Inputs(run.AgentRef)
			if err != nil {
				return err
			}
			for _, in := range inputs {
				got = append(got, in.Origin+" "+string(in.State))
			}
		}
		return nil
	})
	if diff := cmp.Diff(want, got); diff != "" {
		tm.t.Errorf("the inputs of %s (-want +got):\n%s", agent, diff)
	}
}
