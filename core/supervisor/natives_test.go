package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// nativeHost is a played host whose engine has native agents.
type nativeHost struct {
	playedHost
	natives []*hostpb.Native
	ended   []string // threads
}

func (h *nativeHost) Natives(context.Context, *hostpb.NativesRequest, ...grpc.CallOption) (*hostpb.NativesResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &hostpb.NativesResponse{Natives: slices.Clone(h.natives)}, nil
}

func (h *nativeHost) EndNative(_ context.Context, r *hostpb.EndNativeRequest, _ ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, r.GetThreadId())
	return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED}, nil
}

// has makes these the engine's native agents from now on.
func (h *nativeHost) has(list ...*hostpb.Native) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.natives = list
}

// native is a native agent that the thread started.
func native(id, parent, role, status string) *hostpb.Native {
	return &hostpb.Native{ThreadId: id, ParentThreadId: parent, Role: role, Status: status}
}

// nativeRig is a session whose worker j0, on thread "thread", has the native
// agents scout and guide in its home; guide may start digger, and give jobs to
// the worker's role. The worker's actor runs.
func nativeRig(t *testing.T, host *nativeHost) (*rig, *agent) {
	t.Helper()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	role := func(id string, backend string, spawns ...string) {
		r.snap.Agents[id] = profile.Agent{ID: id, Backends: []string{backend}, CanSpawn: spawns, Model: "m"}
		r.snap.Order = append(r.snap.Order, id)
	}
	worker := r.snap.Agents["worker"]
	worker.CanSpawn = []string{"scout", "guide"}
	r.snap.Agents["worker"] = worker
	role("scout", profile.BackendNative)
	role("guide", profile.BackendNative, "digger", "helper")
	role("digger", profile.BackendNative)
	role("helper", profile.BackendMCP)
	dir := testkit.PrivateDir(t)
	home := store.Home{Dir: dir, NativeAgentFiles: map[string]string{}, NativeAgentSHA: map[string]string{}}
	for _, id := range []string{"scout", "guide", "digger"} {
		path := filepath.Join(dir, id+".toml")
		if err := os.WriteFile(path, []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(id))
		home.NativeAgentFiles[id], home.NativeAgentSHA[id] = path, hex.EncodeToString(sum[:])
	}
	r.edit(func(rec *store.Session) { rec.Homes = map[string]store.Home{"worker": home} })
	engine, err := process.Start(process.Spec{Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = engine.Kill() // it may be gone
		<-engine.Done()
	})
	a := r.player(&host.playedHost, func(rec *store.AgentRun, _ *profile.Agent) { rec.Engine = recordOf(engine.Identity()) })
	a.host = host
	r.play(a)
	return r, a
}

// TestNativeCallers: a thread is a native agent when the engine says that it is
// below the agent's own, and when its role and its parent's are such by the
// profile and in the recorded home. Only then it has what its role was granted.
//
// Spec: R058
func TestNativeCallers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		natives []*hostpb.Native
		nested  bool
		change  func(r *rig)
		refused string
		want    access.Caller
	}{
		{
			name: "a native agent", natives: []*hostpb.Native{native("t1", "thread", "scout", "active")},
			want: access.Caller{Role: access.RoleNative, Agent: "scout", AgentRef: "ar_0", JobID: "j0", ThreadID: "t1"},
		},
		{
			name: "one that delegates", nested: true, natives: []*hostpb.Native{native("t1", "thread", "guide", "active")},
			want: access.Caller{Role: access.RoleNative, Agent: "guide", AgentRef: "ar_0", JobID: "j0", ThreadID: "t1", Grants: access.Grants{Spawns: true}},
		},
		{
			name: "one that could delegate in another team", natives: []*hostpb.Native{native("t1", "thread", "guide", "active")},
			want: access.Caller{Role: access.RoleNative, Agent: "guide", AgentRef: "ar_0", JobID: "j0", ThreadID: "t1"},
		},
		{
			name: "one of another", nested: true, natives: []*hostpb.Native{native("t0", "thread", "guide", "idle"), native("t1", "t0", "digger", "active")},
			want: access.Caller{Role: access.RoleNative, Agent: "digger", AgentRef: "ar_0", JobID: "j0", ThreadID: "t1", Between: []string{"guide"}},
		},
		{name: "a foreign thread", natives: []*hostpb.Native{native("t9", "thread", "scout", "active")}, refused: "neither the thread of agent worker nor that of a native agent"},
		{name: "no role", natives: []*hostpb.Native{native("t1", "thread", "", "active")}, refused: `runs as "", which is no native agent of worker`},
		{name: "a role of a process of its own", natives: []*hostpb.Native{native("t1", "thread", "helper", "active")}, refused: `runs as "helper", which is no native agent of worker`},
		{name: "a role that its parent may not start", natives: []*hostpb.Native{native("t1", "thread", "digger", "active")}, refused: `runs as "digger", which is no native agent of worker`},
		{name: "one of another that may not have any", nested: true, natives: []*hostpb.Native{native("t0", "thread", "scout", "idle"), native("t1", "t0", "digger", "active")}, refused: `no native agent of scout`},
		{name: "one of another, in a team without those", natives: []*hostpb.Native{native("t0", "thread", "guide", "idle"), native("t1", "t0", "digger", "active")}, refused: "was not started by agent worker"},
		{
			name: "a role without a file on record", natives: []*hostpb.Native{native("t1", "thread", "scout", "active")}, refused: `runs as "scout", which is no native agent`,
			change: func(r *rig) {
				r.edit(func(rec *store.Session) { delete(rec.Homes["worker"].NativeAgentFiles, "scout") })
			},
		},
		{
			name: "a role whose file was changed", natives: []*hostpb.Native{native("t1", "thread", "scout", "active")}, refused: "native capabilities disagree",
			change: func(r *rig) {
				if err := os.WriteFile(r.cachedSession().Homes["worker"].NativeAgentFiles["scout"], []byte("more"), 0o600); err != nil {
					r.t.Fatal(err)
				}
			},
		},
		{name: "threads in a ring", nested: true, natives: []*hostpb.Native{native("t1", "t2", "digger", "active"), native("t2", "t1", "guide", "active")}, refused: "invalid native-agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host := &nativeHost{natives: tt.natives}
			r, a := nativeRig(t, host)
			r.snap.Coordination.NativeNestedDelegation = tt.nested
			if tt.change != nil {
				tt.change(r)
			}
			got, err := r.nativeCaller(t.Context(), a, "t1")
			if tt.refused != "" {
				wantKind(t, "the call", err, core.KindPermission, tt.refused)
				if !strings.HasPrefix(err.Error(), "invalid native-agent: ") {
					t.Errorf("the refusal is %q, want it to begin with what is invalid", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Chain = []string{r.sess.RootAgentRef}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the caller (-want +got):\n%s", diff)
			}
			err = r.view(t.Context(), func(tx *store.Tx) error {
				view, err := r.admissionView(tx, got)
				if err == nil && view.Caller.Depth != 2+len(tt.want.Between) {
					t.Errorf("its depth is %d, want %d", view.Caller.Depth, 2+len(tt.want.Between))
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestToolsByCaller: the root and whoever delegates have all tools of the
// coordination; everybody else looks and reads; who controls others has the tools
// of what it was granted in addition.
//
// Spec: R058
func TestToolsByCaller(t *testing.T) {
	t.Parallel()
	all := []string{
		"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel",
		"agent_result_accept", "agent_result_reject", "agent_patch_integrate",
	}
	reading := []string{"agent_status", "agents_wait", "agent_result"}
	r, _ := nativeRig(t, &nativeHost{})
	steers := map[string][]string{"helper": {"steer"}}
	for _, tt := range []struct {
		name   string
		caller access.Caller
		want   []string
	}{
		{"the root", access.Caller{Role: access.RoleRoot, Agent: "lead"}, all},
		{"a worker", access.Caller{Role: access.RoleWorker, Agent: "helper"}, reading},
		{"a native agent", access.Caller{Role: access.RoleNative, Agent: "scout"}, reading},
		{"a native agent that delegates", access.Caller{Role: access.RoleNative, Agent: "guide", Grants: access.Grants{Spawns: true}}, all},
		{"one that may not, with that role", access.Caller{Role: access.RoleNative, Agent: "guide"}, reading},
		{"a native agent that controls", access.Caller{Role: access.RoleNative, Agent: "scout", Grants: access.Grants{Controls: steers}}, append(slices.Clone(reading), "agent_inspect", "agent_steer")},
		{"another thread of a client that leads", access.Caller{Role: access.RoleNative, Agent: "lead", Grants: access.Grants{WholeSession: true}}, reading},
	} {
		if diff := cmp.Diff(tt.want, r.toolsOf(tt.caller)); diff != "" {
			t.Errorf("the tools of %s (-want +got):\n%s", tt.name, diff)
		}
		answer := callerAnswer(r.snap, tt.caller, nil)
		if spawns := slices.Contains(tt.want, "agent_spawn"); spawns != (len(answer.Spawn) > 0) {
			t.Errorf("%s may spawn %v, with the tools for it %v", tt.name, answer.Spawn, spawns)
		}
	}
}

// onlyNative brings the record of j0's native agents up to date and returns the only
// one.
func (r *rig) onlyNative() control.NativeView {
	r.t.Helper()
	call := control.Call{Operator: true, Peer: access.Peer{PID: os.Getpid()}}
	answer, err := r.Control(r.t.Context(), call, control.ControlRequest{JobID: "j0", Action: control.ActionInspect})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(answer.Job.NativeRuns) != 1 {
		r.t.Fatalf("the job has the native agents %v, want one", answer.Job.NativeRuns)
	}
	for ref, n := range answer.Job.NativeRuns {
		if ref != n.AgentRunRef {
			r.t.Errorf("native agent %s is listed as %s", n.AgentRunRef, ref)
		}
		return n
	}
	panic("unreachable")
}

func (r *rig) orderNative(q control.ControlRequest, expected uint64) (*control.ControlResponse, error) {
	q.ExpectedRevision = &expected
	return r.Control(r.t.Context(), control.Call{Operator: true, Peer: access.Peer{PID: os.Getpid()}}, q)
}

// TestStoppedNativeStays: a native agent that was stopped by its thread is
// archived by the engine, and stays stopped whatever the engine tells of it later;
// its calls are refused.
//
// Spec: A031
func TestStoppedNativeStays(t *testing.T) {
	t.Parallel()
	host := &nativeHost{natives: []*hostpb.Native{native("t1", "thread", "scout", "active")}}
	r, a := nativeRig(t, host)
	if n := r.onlyNative(); n.Status != "active" || n.ControlRevision != 0 || n.Agent != "scout" || n.ThreadID != "t1" || n.ParentThreadID != "thread" {
		t.Errorf("the native agent is %+v", n)
	}
	stop := control.ControlRequest{JobID: "j0", TargetThreadID: "t1", Action: control.ActionStop}
	_, err := r.orderNative(stop, 1)
	wantKind(t, "a stop by who has not looked", err, core.KindRuntime, "stale control revision 1")
	answer, err := r.orderNative(stop, 0)
	if err != nil {
		t.Fatal(err)
	}
	if answer.ControlRevision != 1 || answer.Result["stopping"] != true || answer.Native.Status != "stopped" {
		t.Errorf("stopping answered %+v with %+v", answer, answer.Native)
	}
	if diff := cmp.Diff([]string{"t1"}, host.ended); diff != "" {
		t.Errorf("threads that were ended (-want +got):\n%s", diff)
	}
	if n := r.onlyNative(); n.Status != "stopped" || n.ControlRevision != 1 {
		t.Errorf("after a refresh it is %+v", n)
	}
	var failed error
	frame := `{"method":"thread/status/changed","params":{"threadId":"t1","status":{"type":"active"}}}`
	if err := a.do(t.Context(), func(ctx context.Context) { _, failed = a.received(ctx, position{}, []byte(frame)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if n := r.onlyNative(); n.Status != "stopped" {
		t.Errorf("after a late notice it is %s", n.Status)
	}
	_, err = r.nativeCaller(t.Context(), a, "t1")
	wantKind(t, "a call of it", err, core.KindPermission, "invalid native-agent: thread t1 was stopped")
	_, err = r.orderNative(stop, 1)
	wantKind(t, "a second stop", err, core.KindRuntime, "is stopped: there is nothing to stop")
}

// TestDetachedNativeIsSeenAgain: a native agent that was detached has its live
// status again at the next look, and keeps its revision.
//
// Spec: A032
func TestDetachedNativeIsSeenAgain(t *testing.T) {
	t.Parallel()
	host := &nativeHost{natives: []*hostpb.Native{native("t1", "thread", "scout", "active")}}
	r, _ := nativeRig(t, host)
	ref := r.onlyNative().AgentRunRef
	answer, err := r.orderNative(control.ControlRequest{AgentRunRef: ref, Action: control.ActionDetach}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Native.Status != "detached" || answer.ControlRevision != 1 || len(host.ended) != 0 {
		t.Errorf("detaching answered %+v, and ended %v", answer.Native, host.ended)
	}
	host.has(native("t1", "thread", "scout", "idle"))
	if n := r.onlyNative(); n.Status != "idle" || n.ControlRevision != 1 {
		t.Errorf("after a refresh it is %+v, want idle at revision 1", n)
	}
	host.has()
	if n := r.onlyNative(); n.Status != "notLoaded" {
		t.Errorf("when the engine has it no more it is %s", n.Status)
	}
	_, err = r.orderNative(control.ControlRequest{AgentRunRef: ref, Action: control.ActionDetach}, 1)
	wantKind(t, "detaching what does not run", err, core.KindRuntime, "is notLoaded: there is nothing to detach")
	_, err = r.orderNative(control.ControlRequest{AgentRunRef: ref, Action: control.ActionSteer, Input: "x"}, 1)
	wantKind(t, "steering it", err, core.KindValue, "a native agent can't be told to steer")
	_, err = r.orderNative(control.ControlRequest{JobID: "j0", TargetThreadID: "t7", Action: control.ActionStop}, 0)
	wantKind(t, "stopping a foreign thread", err, core.KindNotFound, `no native agent on thread "t7"`)
}

// TestStopEndsNativesBelow: what the engine ends with a native agent is stopped,
// too; others are not.
func TestStopEndsNativesBelow(t *testing.T) {
	t.Parallel()
	host := &nativeHost{natives: []*hostpb.Native{
		native("t1", "thread", "guide", "active"), native("t2", "t1", "digger", "active"), native("t3", "thread", "scout", "active"),
	}}
	r, _ := nativeRig(t, host)
	if _, err := r.orderNative(control.ControlRequest{JobID: "j0", TargetThreadID: "t1", Action: control.ActionStop}, 0); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	run := r.runNow("ar_0")
	for _, n := range nativeViews(&run) {
		got[n.ThreadID] = n.Status
	}
	if diff := cmp.Diff(map[string]string{"t1": "stopped", "t2": "stopped", "t3": "active"}, got); diff != "" {
		t.Errorf("native agents (-want +got):\n%s", diff)
	}
}

// TestNativesWithoutTheirEngine: nothing of a native agent runs once the engine
// is gone.
func TestNativesWithoutTheirEngine(t *testing.T) {
	t.Parallel()
	run := &store.AgentRun{}
	run.Natives, _ = mergeNatives(nil, []*hostpb.Native{native("t1", "thread", "scout", "active"), native("t2", "thread", "scout", "")}, rand.Reader, time.Now())
	run.Natives[1].Status = store.NativeStopped
	for _, n := range nativeViews(run) {
		if want := map[string]string{"t1": "notLoaded", "t2": "stopped"}[n.ThreadID]; n.Status != want {
			t.Errorf("native agent on %s is %s, want %s", n.ThreadID, n.Status, want)
		}
	}
}

// TestNativesAsk: what a native agent asks waits for whoever answers for the agent
// in whose engine it runs, also when that agent's own turn is interrupted; a
// foreign thread's questions are not taken down.
func TestNativesAsk(t *testing.T) {
	t.Parallel()
	host := &nativeHost{natives: []*hostpb.Native{native("t1", "thread", "scout", "active")}}
	r, a := nativeRig(t, host)
	receive := func(frame string) {
		t.Helper()
		var failed error
		if err := a.do(t.Context(), func(ctx context.Context) { _, failed = a.received(ctx, position{}, []byte(frame)) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	if err := a.do(t.Context(), func(context.Context) { a.role.ApprovalPolicy = "on-request" }); err != nil {
		t.Fatal(err)
	}
	ask := `{"id":%d,"method":"item/commandExecution/requestApproval","params":{"threadId":%q,"turnId":"turn-of-it","command":"ls"}}`
	receive(fmt.Sprintf(ask, 7, "t1"))
	receive(fmt.Sprintf(ask, 8, "t9"))
	receive(fmt.Sprintf(ask, 9, "thread"))
	asked := func() (keys []string) {
		rec := a.snapshot()
		for _, p := range rec.Pending {
			keys = append(keys, p.ThreadID+" "+p.Key)
		}
		return keys
	}
	if diff := cmp.Diff([]string{"t1 integer:7", "thread integer:9"}, asked()); diff != "" {
		t.Errorf("what is asked (-want +got):\n%s", diff)
	}
	if _, err := r.order(0, control.ActionInterrupt, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"t1 integer:7"}, asked()); diff != "" {
		t.Errorf("what is asked after an interrupt (-want +got):\n%s", diff)
	}
	_, err := r.orderNative(control.ControlRequest{JobID: "j0", Action: control.ActionRespond, RequestID: "integer:7", Response: []byte(`{"decision":"accept"}`)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`7={"decision":"accept"}`}, host.answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	receive(`{"method":"serverRequest/resolved","params":{"threadId":"t1","requestId":7}}`)
	if got := asked(); got != nil {
		t.Errorf("after the answer %v is asked", got)
	}
}

// TestNativesSpendTheirParentsBudget: on a route that no gateway counts, what a
// native agent uses is its engine's agent's, model by model; when the budget is
// used up, native agents at work are stopped, and the turn is interrupted.
func TestNativesSpendTheirParentsBudget(t *testing.T) {
	t.Parallel()
	host := &nativeHost{natives: []*hostpb.Native{native("t1", "thread", "scout", "active"), native("t2", "thread", "guide", "active")}}
	r, a := nativeRig(t, host)
	route := r.snap.Routes["offline"]
	route.Driver, route.BillingMode = profile.DriverCodexLogin, profile.BillingSubscription
	r.snap.Routes["offline"] = route
	other := r.snap.Agents["guide"]
	other.Model = "m2"
	r.snap.Agents["guide"] = other
	r.edit(func(rec *store.Session) { rec.Budget.Limit.Tokens = 1000 })
	err := r.updateJob(t.Context(), "j0", func(_ *store.Tx, j *store.Job) error { j.Reserved.Tokens = 600; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := a.do(t.Context(), func(context.Context) { a.rec.Model, a.rec.Route = "m", "offline" }); err != nil {
		t.Fatal(err)
	}
	uses := func(thread string, input, output int) {
		t.Helper()
		frame := fmt.Sprintf(`{"method":"thread/tokenUsage/updated","params":{"threadId":%q,"tokenUsage":{"total":{"inputTokens":%d,"outputTokens":%d}}}}`, thread, input, output)
		var failed error
		if err := a.do(t.Context(), func(ctx context.Context) { _, failed = a.received(ctx, position{}, []byte(frame)) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
	}
	uses("thread", 100, 10)
	uses("t1", 200, 20)
	uses("t9", 5000, 0) // foreign
	uses("t2", 30, 3)
	uses("t1", 220, 20)
	got := map[string]uint64{}
	err = r.store.View(t.Context(), func(tx *store.Tx) error {
		list, err := tx.UsageOf(r.session)
		for _, u := range list {
			got[u.AgentRef+" "+u.Model] = u.ChargedTokens
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]uint64{"ar_0 m": 350, "ar_0 m2": 33}, got); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
	if len(host.ended) != 0 {
		t.Errorf("within the budget %v were ended", host.ended)
	}
	uses("t2", 250, 3)
	if diff := cmp.Diff([]string{"t1", "t2"}, host.ended); diff != "" {
		t.Errorf("native agents that were ended at the limit (-want +got):\n%s", diff)
	}
	if !slices.Contains(host.commands, "interrupt") {
		t.Errorf("at the limit the host was told %v, want the turn interrupted", host.commands)
	}
}
