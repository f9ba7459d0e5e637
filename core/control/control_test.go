package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// callerEnv makes the test binary call jobs and hello at the socket it names,
// and print what came of it.
const callerEnv = "MMO_CONTROL_TEST_SOCKET"

func TestMain(m *testing.M) {
	if path := os.Getenv(callerEnv); path != "" {
		ctx := context.Background()
		c := control.Dial(path, &control.ClientOptions{Token: access.Token(os.Getenv("MMO_CONTROL_TEST_TOKEN"))})
		_, err := c.Jobs(ctx, control.Meta{}, control.JobsRequest{})
		fmt.Printf("jobs: %s %v\n", core.KindOf(err), err)
		_, err = c.Hello(ctx)
		fmt.Printf("hello: %s %v\n", core.KindOf(err), err)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// bounded returns a context that fails a test rather than hang it.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, h *controltest.Handler, opts *control.ClientOptions) *control.Client {
	t.Helper()
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	return control.Dial(path, opts)
}

func TestRoundTrip(t *testing.T) {
	ctx := bounded(t)
	var seen control.Call
	c := start(t, &controltest.Handler{
		OnSpawn: func(_ context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
			seen = call
			return &control.SpawnResponse{BatchID: r.Agents[0].Task, Accepted: []control.AcceptedJob{{JobID: "j"}}}, nil
		},
	}, &control.ClientOptions{Build: "b1", Token: "secret"})
	meta := control.Meta{ThreadID: "th", TurnID: "tu", CallID: "ca"}
	got, err := c.Spawn(ctx, meta, control.SpawnRequest{Agents: []control.SpawnSpec{{Agent: "a", Task: "do <it>\u2028"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &control.SpawnResponse{BatchID: "do <it>\u2028", Accepted: []control.AcceptedJob{{JobID: "j"}}, Rejected: []control.RejectedJob{}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Spawn differs (-want +got):\n%s", d)
	}
	if seen.Token.Reveal() != "secret" || seen.Operator || seen.Build != "b1" || seen.Key() != "call/th/tu/ca" {
		t.Errorf("call = %+v with key %q, want the token, the build and the ids", seen, seen.Key())
	}
	if seen.Peer.PID != os.Getpid() || seen.Peer.UID != os.Getuid() {
		t.Errorf("peer = %+v, want this process", seen.Peer)
	}
}

// TestDispositions sends the verbs that decide about a result, and checks that
// each reaches its own method with all of its fields.
func TestDispositions(t *testing.T) {
	var got []any
	job := control.JobView{
		JobID: "j", ResultState: "accepted",
		Patch: &control.PatchView{ChangedPaths: []string{"a"}, TotalPaths: 1, SHA256: "00", BaseCommit: "11"},
	}
	c := start(t, &controltest.Handler{
		OnAccept: func(_ context.Context, _ control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
			got = append(got, "accept", r)
			return &control.DispositionResponse{Job: job}, nil
		},
		OnReject: func(_ context.Context, _ control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
			got = append(got, "reject", r)
			return &control.DispositionResponse{}, nil
		},
		OnIntegrate: func(_ context.Context, _ control.Call, r control.IntegrateRequest) (*control.IntegrateResponse, error) {
			got = append(got, "integrate", r)
			return &control.IntegrateResponse{Job: job, ChangedPaths: []string{"a"}}, nil
		},
	}, nil)
	decision := control.DispositionRequest{JobID: "j", Reason: "why"}
	integration := control.IntegrateRequest{JobID: "j", Reason: "why", AllowFlagged: true}
	accepted, err := c.Accept(bounded(t), control.Meta{}, decision)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reject(bounded(t), control.Meta{}, decision); err != nil {
		t.Fatal(err)
	}
	integrated, err := c.Integrate(bounded(t), control.Meta{}, integration)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]any{"accept", decision, "reject", decision, "integrate", integration}, got); d != "" {
		t.Errorf("calls differ (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&control.DispositionResponse{Job: job}, accepted); d != "" {
		t.Errorf("Accept differs (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&control.IntegrateResponse{Job: job, ChangedPaths: []string{"a"}}, integrated); d != "" {
		t.Errorf("Integrate differs (-want +got):\n%s", d)
	}
}

func TestKey(t *testing.T) {
	for _, tc := range []struct {
		call control.Call
		want string
	}{
		{control.Call{}, ""},
		{control.Call{ThreadID: "a", TurnID: "b"}, ""},
		{control.Call{ThreadID: "a", TurnID: "b", CallID: "c"}, "call/a/b/c"},
		{control.Call{ThreadID: "a", TurnID: "b", CallID: "c", RequestKey: "k"}, "key/k"},
	} {
		if got := tc.call.Key(); got != tc.want {
			t.Errorf("Key(%+v) = %q, want %q", tc.call, got, tc.want)
		}
	}
}

func TestOperator(t *testing.T) {
	ctx := bounded(t)
	var seen control.Call
	c := start(t, &controltest.Handler{
		OnSession: func(_ context.Context, call control.Call, _ control.SessionRequest) (*control.SessionView, error) {
			seen = call
			return &control.SessionView{SessionID: "s"}, nil
		},
	}, nil)
	if _, err := c.Session(ctx, control.Meta{}); err != nil {
		t.Fatal(err)
	}
	if !seen.Operator || seen.Token != "" {
		t.Errorf("call = %+v, want the operator", seen)
	}
}

// TestEveryVerbHasARight keeps the verbs of this package and the table of
// rights together.
func TestEveryVerbHasARight(t *testing.T) {
	for _, verb := range []string{
		control.VerbHello, control.VerbCaller, control.VerbSession, control.VerbJobs, control.VerbWait,
		control.VerbResult, control.VerbCancel, control.VerbAccept, control.VerbReject, control.VerbIntegrate,
		control.VerbStop, control.VerbFollow, control.VerbAudit,
	} {
		if err := access.May(access.Caller{Role: access.RoleOperator}, verb, access.Job{}, access.State{}); err != nil {
			t.Errorf("the operator may not use %s: %v", verb, err)
		}
	}
	root := access.Caller{Role: access.RoleRoot, Grants: access.Grants{Spawns: true}}
	if err := access.May(root, control.VerbSpawn, access.Job{}, access.State{Status: core.SessionRunning}); err != nil {
		t.Errorf("the root may not spawn: %v", err)
	}
}

// TestAgentsCannotActAsOperator starts a child as an agent's engine would: it
// carries the mark, so without a token it is nobody.
func TestAgentsCannotActAsOperator(t *testing.T) {
	path := controltest.SocketPath(t)
	controltest.Start(t, path, &controltest.Handler{
		OnJobs: func(_ context.Context, call control.Call, _ control.JobsRequest) (*control.JobsResponse, error) {
			if call.Operator {
				return nil, errors.New("taken for the operator")
			}
			return &control.JobsResponse{}, nil
		},
		OnHello: func(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
			return &control.HelloResponse{}, nil
		},
	})
	run := func(env ...string) string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), append(env, callerEnv+"="+path, process.MarkEnv+"=ar_1/1")...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := run(); !strings.Contains(out, "jobs: PermissionError") || !strings.Contains(out, "agent run ar_1/1") || !strings.Contains(out, "hello:  <nil>") {
		t.Errorf("without a token:\n%swant a PermissionError that names the agent run, and hello answered", out)
	}
	if out := run("MMO_CONTROL_TEST_TOKEN=t"); !strings.Contains(out, "jobs:  <nil>") {
		t.Errorf("with a token:\n%swant an answer", out)
	}
}

// TestUnknownFieldsOfAJob: what a job does not take is named.
//
// Spec: A077
func TestUnknownFieldsOfAJob(t *testing.T) {
	spawned := false
	path := controltest.SocketPath(t)
	controltest.Start(t, path, &controltest.Handler{
		OnSpawn: func(context.Context, control.Call, control.SpawnRequest) (*control.SpawnResponse, error) {
			spawned = true
			return &control.SpawnResponse{}, nil
		},
	})
	status, answer := post(t, path, "/v1/spawn", "application/json", map[string]string{control.HeaderAPI: "1"}, strings.NewReader(`{"agents": [{"agent": "a", "task": "x", "timeout_seconds": 5}]}`))
	if status != http.StatusBadRequest || !strings.Contains(answer, `"kind":"ValueError"`) || !strings.Contains(answer, "unknown job request fields: timeout_seconds") {
		t.Errorf("a retired field was answered %d %s", status, answer)
	}
	if spawned {
		t.Error("the job was spawned all the same")
	}
}

// post sends a raw request, as no client of ours would.
func post(t *testing.T, path, url, contentType string, header map[string]string, body io.Reader) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	req, err := http.NewRequestWithContext(bounded(t), http.MethodPost, "http://x"+url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestRefusals(t *testing.T) {
	path := controltest.SocketPath(t)
	controltest.Start(t, path, &controltest.Handler{
		OnCancel: func(context.Context, control.Call, control.CancelRequest) (*control.CancelResponse, error) {
			return nil, core.Errorf(core.KindNotFound, "no such job").WithRemedy("list them")
		},
		OnJobs: func(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
			panic("boom")
		},
	})
	api := map[string]string{control.HeaderAPI: "1", control.HeaderBuild: "test-client"}
	for _, tc := range []struct {
		name, url, body string
		header          map[string]string
		status          int
		want            []string
	}{
		{"no version", "/v1/jobs", "{}", map[string]string{control.HeaderBuild: "test-client"}, 409, []string{"RuntimeError", "test-server", "test-client"}},
		{"other version", "/v1/jobs", "{}", map[string]string{control.HeaderAPI: "2", control.HeaderBuild: "test-client"}, 409, []string{"test-server", "test-client", "API 2"}},
		{"version before body", "/v1/jobs", "not json", map[string]string{control.HeaderAPI: "2"}, 409, []string{"RuntimeError"}},
		{"unknown verb", "/v1/rm", "{}", api, 400, []string{"ValueError", "/v1/rm"}},
		{"unknown path", "/jobs", "{}", api, 400, []string{"ValueError"}},
		{"unknown field", "/v1/cancel", `{"job_id":"j","casacde":true}`, api, 400, []string{"ValueError", "casacde"}},
		{"other case", "/v1/cancel", `{"Job_id":"j"}`, api, 400, []string{"ValueError", "Job_id"}},
		{"duplicate", "/v1/cancel", `{"job_id":"j","job_id":"k"}`, api, 400, []string{"duplicate key"}},
		{"trailing", "/v1/cancel", `{} {}`, api, 400, []string{"after the JSON value"}},
		{"array", "/v1/cancel", `[]`, api, 400, []string{"must be a JSON object"}},
		{"null", "/v1/cancel", `null`, api, 400, []string{"must be a JSON object"}},
		{"empty", "/v1/cancel", ``, api, 400, []string{"must be a JSON object"}},
		{"handler's error", "/v1/cancel", `{"job_id":"j"}`, api, 404, []string{`"kind":"FileNotFoundError"`, `"message":"no such job"`, `"remedy":"list them"`}},
		{"panic", "/v1/jobs", `{}`, api, 409, []string{"internal error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body := post(t, path, tc.url, "application/json", tc.header, strings.NewReader(tc.body))
			if status != tc.status {
				t.Errorf("status = %d, want %d", status, tc.status)
			}
			for _, want := range tc.want {
				if !strings.Contains(body, want) {
					t.Errorf("body = %s, want %q in it", body, want)
				}
			}
			if strings.Contains(body, "boom") {
				t.Errorf("body = %s shows the panic", body)
			}
		})
	}
	t.Run("too large, length unknown", func(t *testing.T) {
		body := io.MultiReader(strings.NewReader(`{"job_id":"`), bytes.NewReader(bytes.Repeat([]byte("x"), control.MaxBody)), strings.NewReader(`"}`))
		status, text := post(t, path, "/v1/cancel", "application/json", api, body)
		if status != 400 || !strings.Contains(text, fmt.Sprint(control.MaxBody)) {
			t.Errorf("answer = %d %s, want 400 naming the limit", status, text)
		}
	})
}

func TestErrorsKeepTheirKind(t *testing.T) {
	ctx := bounded(t)
	var give error
	c := start(t, &controltest.Handler{
		OnSession: func(context.Context, control.Call, control.SessionRequest) (*control.SessionView, error) {
			return nil, give
		},
	}, nil)
	for _, tc := range []struct {
		give error
		want *core.Error
	}{
		{
			&core.Error{Kind: core.KindAdmission, Message: "full", Remedy: "wait", Reason: "capacity", SessionID: "s", SessionStatus: core.SessionRunning},
			&core.Error{Kind: core.KindAdmission, Message: "full", Remedy: "wait", Reason: "capacity", SessionID: "s", SessionStatus: core.SessionRunning},
		},
		{core.Errorf(core.KindOS, "read: %w", os.ErrNotExist), &core.Error{Kind: core.KindOS, Message: "read: file does not exist"}},
		{fmt.Errorf("outer: %w", core.Errorf(core.KindValue, "inner")), &core.Error{Kind: core.KindValue, Message: "outer: inner"}},
		{errors.New("plain"), &core.Error{Kind: core.KindRuntime, Message: "plain"}},
	} {
		give = tc.give
		_, err := c.Session(ctx, control.Meta{})
		var got *core.Error
		if !errors.As(err, &got) {
			t.Fatalf("error = %v, want a core.Error", err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("error for %v differs (-want +got):\n%s", tc.give, d)
		}
	}
}

func TestShutdownAnswersParkedWaits(t *testing.T) {
	path := controltest.SocketPath(t)
	entered := make(chan struct{})
	s := controltest.Start(t, path, &controltest.Handler{
		OnWait: func(ctx context.Context, _ control.Call, _ control.WaitRequest) (*control.WaitResponse, error) {
			close(entered)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), control.ErrDraining) {
				return nil, fmt.Errorf("cause is %w", context.Cause(ctx))
			}
			return nil, ctx.Err()
		},
	})
	c := control.Dial(path, nil)
	returned := make(chan error, 1)
	go func() {
		_, err := c.Wait(bounded(t), control.Meta{}, control.WaitRequest{TimeoutSeconds: 600})
		returned <- err
	}()
	<-entered
	if err := s.Shutdown(bounded(t)); err != nil {
		t.Fatal(err)
	}
	err := <-returned
	if core.KindOf(err) != core.KindUnavailable || !strings.Contains(err.Error(), "nothing is lost") {
		t.Errorf("Wait = %v, want an UnavailableError saying that nothing is lost", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there after the shutdown: %v", err)
	}
}

// TestHoldersReachTheClient: a refusal by capacity arrives with its reason and
// with who holds what is missing.
func TestHoldersReachTheClient(t *testing.T) {
	want := &core.Error{
		Kind: core.KindAdmission, Message: "active-agent limit 1 is reached", Remedy: "wait", Reason: "active_agent_limit",
		Holders: []core.Holder{{SessionID: "s", JobID: "j", Agent: "a", Status: "running", Units: 2, WriteScope: []string{"/w"}, Frees: "when the job ends"}},
	}
	c := start(t, &controltest.Handler{
		OnSpawn: func(context.Context, control.Call, control.SpawnRequest) (*control.SpawnResponse, error) {
			return nil, want
		},
	}, nil)
	_, err := c.Spawn(bounded(t), control.Meta{}, control.SpawnRequest{})
	var got *core.Error
	if !errors.As(err, &got) {
		t.Fatalf("Spawn = %v, want a refusal", err)
	}
	if diff := cmp.Diff(want.Holders, got.Holders); diff != "" || got.Reason != want.Reason || got.Kind != want.Kind {
		t.Errorf("the refusal arrived as %+v (-want +got):\n%s", got, diff)
	}
}
