package hostplugin_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

func TestLaunchRefusesWhatItCannotStandFor(t *testing.T) {
	dir := testkit.PrivateDir(t)
	_, client := serve(t, dir)
	good := &hostpb.LaunchRequest{
		Fence: fenceAt(1), AgentRef: agentRefOf, Generation: 1,
		EnginePath: "/bin/sleep", EngineSha256: strings.Repeat("0", 64), EngineHome: dir, Cwd: dir,
		SocketPath: dir + "/s", SpoolDir: dir + "/spool", StderrPath: dir + "/err",
	}
	for name, spoil := range map[string]func(*hostpb.LaunchRequest){
		"relative engine":   func(r *hostpb.LaunchRequest) { r.EnginePath = "codex" },
		"relative folder":   func(r *hostpb.LaunchRequest) { r.Cwd = "." },
		"no spool":          func(r *hostpb.LaunchRequest) { r.SpoolDir = "" },
		"no digest":         func(r *hostpb.LaunchRequest) { r.EngineSha256 = "" },
		"foreign ref":       func(r *hostpb.LaunchRequest) { r.AgentRef = "ar_../x" },
		"no generation":     func(r *hostpb.LaunchRequest) { r.Generation = 0 },
		"long socket path":  func(r *hostpb.LaunchRequest) { r.SocketPath = "/" + strings.Repeat("x", 99) },
		"another binary":    func(*hostpb.LaunchRequest) {},
		"no such binary":    func(r *hostpb.LaunchRequest) { r.EnginePath = dir + "/none" },
		"a world-open home": func(r *hostpb.LaunchRequest) { r.SpoolDir = "/tmp" },
	} {
		req := proto.CloneOf(good)
		spoil(req)
		got, err := client.Launch(withTime(t), req)
		if err != nil || got.GetFailure().GetMessage() == "" || got.GetHandle() != nil {
			t.Errorf("%s: Launch() = %v, %v; want a failure and no handle", name, got, err)
		}
		if name == "long socket path" && !strings.Contains(got.GetFailure().GetMessage(), "100 bytes, the most is 99; set MMO_RUNTIME_DIR") {
			t.Errorf("%s: failure %q, want the length and the remedy", name, got.GetFailure().GetMessage())
		}
		if name == "no such binary" && got.GetFailure().GetKind() != "engine_missing" {
			t.Errorf("%s: failure %v, want engine_missing", name, got.GetFailure())
		}
	}
}

func TestNothingIsAppliedBeforeLaunch(t *testing.T) {
	_, client := serve(t, testkit.PrivateDir(t))
	opened, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: &hostpb.ThreadSpec{}})
	if err != nil || opened.GetFailure().GetKind() != "not_launched" {
		t.Errorf("Open() = %v, %v; want not_launched", opened, err)
	}
	turn, err := client.StartTurn(withTime(t), &hostpb.StartTurnRequest{Fence: fenceAt(1), CommandId: "in_1", Text: "x"})
	if err != nil || turn.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || turn.GetFailure().GetKind() != "not_launched" {
		t.Errorf("StartTurn() = %v, %v; want rejected", turn, err)
	}
	stopped, err := client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1)})
	if err != nil || stopped.GetEngineWasRunning() || len(stopped.GetSurvivors()) > 0 {
		t.Errorf("Stop() = %v, %v; want nothing to stop", stopped, err)
	}
}

func TestOpenNeverSendsASandboxBesideAProfile(t *testing.T) {
	s := adopted(t)
	for name, spec := range map[string]*hostpb.ThreadSpec{
		"both":        {Open: &hostpb.ThreadSpec_Start{Start: true}, Permissions: "mmo", Sandbox: "read-only"},
		"neither way": {Permissions: "mmo"},
		"bad config":  {Open: &hostpb.ThreadSpec_Start{Start: true}, ConfigJson: []byte(`[1]`)},
	} {
		got, err := s.client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: spec})
		if err != nil || got.GetFailure().GetKind() != "invalid" {
			t.Errorf("%s: Open() = %v, %v; want invalid", name, got, err)
		}
	}
}

func TestRealForkIsDurableAndIsolated(t *testing.T) {
	p := newPlace(t, newProvider(t, says("first")).url)
	_, client := serve(t, p.run)
	opened := start(t, p, client)
	ev := follow(t, client, 1, nil)
	startTurn(t, client, 1, "in_1", "hello")
	ev.received("turn/completed")
	stop := func() {
		t.Helper()
		if out, err := client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1), GraceMs: 500}); err != nil || len(out.GetSurvivors()) > 0 {
			t.Fatalf("Stop() = %v, %v", out, err)
		}
	}
	stop()
	spec := p.spec()
	spec.Open = &hostpb.ThreadSpec_ForkThreadId{ForkThreadId: opened.GetHandle().GetThreadId()}
	launched, err := client.Launch(withTime(t), p.launch(2))
	must(t, "Launch", err, launched.GetFailure())
	forked, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: spec})
	must(t, "Open by fork", err, forked.GetFailure())
	if forked.GetHandle().GetThreadId() == opened.GetHandle().GetThreadId() || forked.GetEcho().GetPermissionProfile() != "mmo" {
		t.Errorf("fork = %v, want another thread under mmo", forked)
	}
	if turns := forked.GetState().GetTurns(); len(turns) != 1 || turns[0].GetFinalText() != "first" {
		t.Errorf("turns of the fork = %v, want the parent's", turns)
	}
	kill9(t, forked.GetHandle())
	ev.until("the end", func(e *hostpb.Event) bool { return e.GetExited() != nil && e.GetPosition().GetGeneration() == 2 })
	spec.Open = &hostpb.ThreadSpec_ResumeThreadId{ResumeThreadId: forked.GetHandle().GetThreadId()}
	launched, err = client.Launch(withTime(t), p.launch(3))
	must(t, "Launch", err, launched.GetFailure())
	resumed, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: spec})
	must(t, "Open of the fork after the kill", err, resumed.GetFailure())
}
