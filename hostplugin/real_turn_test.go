package hostplugin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/process"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

func TestRealTurnRunsToItsEndWithItsEventsSpooled(t *testing.T) {
	var bodies [][]byte // one request at a time
	keep := func(step func(*sse, []byte)) func(*sse, []byte) {
		return func(s *sse, body []byte) {
			bodies = append(bodies, body)
			step(s, body)
		}
	}
	p := newPlace(t, newProvider(t, keep(runs("echo out")), keep(says("all done"))).url)
	_, client := serve(t, p.run)
	opened := start(t, p, client)
	echo := opened.GetEcho()
	want := []string{"mmo", "workspaceWrite", "never", "scripted", "gw", p.work, "0.149.0"}
	got := []string{
		echo.GetPermissionProfile(), echo.GetSandboxType(), echo.GetApprovalPolicy(),
		echo.GetModel(), echo.GetModelProvider(), echo.GetCwd(), echo.GetEngineVersion(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("echo (-want +got):\n%s", diff)
	}
	if s := opened.GetState(); s.GetStatus() != "idle" || len(s.GetTurns()) > 0 || s.GetThreadId() != opened.GetHandle().GetThreadId() {
		t.Errorf("state of a fresh thread = %v", s)
	}
	ev := follow(t, client, 1, nil)
	turn := startTurn(t, client, 1, "in_1", "do <it> & tell")
	ev.received("turn/completed")
	read, err := client.Read(withTime(t), &hostpb.ReadRequest{IncludeItems: true})
	must(t, "Read", err, read.GetFailure())
	if len(read.GetState().GetTurns()) != 1 {
		t.Fatalf("turns = %v, want one", read.GetState().GetTurns())
	}
	told := read.GetState().GetTurns()[0]
	if told.GetId() != turn || told.GetStatus() != "completed" || !told.GetHasCompletedAt() ||
		told.GetFinalText() != "all done" || len(told.GetCommandIds()) != 1 || told.GetCommandIds()[0] != "in_1" {
		t.Errorf("turn = %v, want in_1 completed with its text", told)
	}
	if !bytes.Contains(told.GetRawJson(), []byte(`"aggregatedOutput":"out\n"`)) {
		t.Errorf("raw turn lacks the command's output: %s", told.GetRawJson())
	}
	if n := ev.sent("turn/start"); n != 1 {
		t.Errorf("%d turn/start in the spool, want 1", n)
	}
	assertRows(t, client, ev)
	for _, body := range bodies {
		if bytes.Contains(body, []byte("host test")) {
			t.Error("the model saw the name that made the thread durable")
		}
	}
}

// assertRows fails unless a replay gives what was seen live, numbered from 1
// without a gap.
func assertRows(t *testing.T, client hostpb.HostClient, live *events) {
	t.Helper()
	last := live.seen[len(live.seen)-1].GetPosition()
	again := follow(t, client, 1, nil)
	again.until("the last row", func(e *hostpb.Event) bool { return e.GetPosition().GetSeq() == last.GetSeq() })
	for i, e := range again.seen {
		if e.GetPosition().GetSeq() != uint64(i+1) || e.GetPosition().GetGeneration() != last.GetGeneration() || e.GetHole() != nil {
			t.Fatalf("row %d of the replay = %v", i+1, e)
		}
	}
	var kept []string
	for _, e := range live.seen {
		if !e.GetTransient() {
			kept = append(kept, e.String())
		}
	}
	if len(kept) != len(again.seen) {
		t.Errorf("replay has %d rows, live had %d", len(again.seen), len(kept))
	}
}

func startTurn(t *testing.T, client hostpb.HostClient, epoch uint64, id, text string) (turnID string) {
	t.Helper()
	got, err := client.StartTurn(withTime(t), &hostpb.StartTurnRequest{Fence: fenceAt(epoch), CommandId: id, Text: text})
	must(t, "StartTurn", err, got.GetFailure())
	if got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED || got.GetTurnId() == "" {
		t.Fatalf("StartTurn(%s) = %v, want applied", id, got)
	}
	return got.GetTurnId()
}

func TestRealFreshThreadSurvivesTheKillOfItsEngine(t *testing.T) {
	p := newPlace(t, newProvider(t, says("hello again")).url)
	_, client := serve(t, p.run)
	opened := start(t, p, client)
	ev := follow(t, client, 1, nil)
	kill9(t, opened.GetHandle())
	exited := ev.until("the engine's end", func(e *hostpb.Event) bool { return e.GetExited() != nil }).GetExited()
	if !exited.GetKnown() || exited.GetSignal() != int32(syscall.SIGKILL) {
		t.Errorf("exited = %v, want signal 9", exited)
	}
	launched, err := client.Launch(withTime(t), p.launch(2))
	must(t, "Launch of generation 2", err, launched.GetFailure())
	spec := p.spec()
	spec.Open = &hostpb.ThreadSpec_ResumeThreadId{ResumeThreadId: opened.GetHandle().GetThreadId()}
	resumed, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: spec})
	must(t, "Open of the fresh thread in a new engine", err, resumed.GetFailure())
	if got := resumed.GetEcho().GetPermissionProfile(); got != "mmo" {
		t.Errorf("permission profile after resume = %q, want mmo", got)
	}
	if got := resumed.GetHandle().GetThreadId(); got != opened.GetHandle().GetThreadId() {
		t.Errorf("resumed thread %s, want %s", got, opened.GetHandle().GetThreadId())
	}
	startTurn(t, client, 1, "in_1", "hello")
	ev.received("turn/completed")
}

func kill9(t *testing.T, handle *hostpb.Handle) {
	t.Helper()
	p := handle.GetEngine()
	h, err := process.Open(process.Identity{PID: int(p.GetPid()), StartToken: p.GetStartToken(), BootID: p.GetBootId()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-h.Done():
	case <-time.After(patience):
		t.Fatalf("pid %d survived SIGKILL", p.GetPid())
	}
}

func TestRealLostTurnReadsAsLost(t *testing.T) {
	p := newPlace(t, newProvider(t, holds(nil, "")).url)
	_, client := serve(t, p.run)
	opened := start(t, p, client)
	ev := follow(t, client, 1, nil)
	turn := startTurn(t, client, 1, "in_1", "hello")
	ev.received("item/completed") // the user's message is in the history
	kill9(t, opened.GetHandle())
	launched, err := client.Launch(withTime(t), p.launch(2))
	must(t, "Launch", err, launched.GetFailure())
	spec := p.spec()
	spec.Open = &hostpb.ThreadSpec_ResumeThreadId{ResumeThreadId: opened.GetHandle().GetThreadId()}
	resumed, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fenceAt(1), Thread: spec})
	must(t, "Open", err, resumed.GetFailure())
	turns := resumed.GetState().GetTurns()
	if len(turns) != 1 || turns[0].GetId() != turn || turns[0].GetStatus() != "interrupted" ||
		turns[0].GetHasCompletedAt() || cmp.Diff([]string{"in_1"}, turns[0].GetCommandIds()) != "" {
		t.Errorf("turns after the kill = %v, want in_1 interrupted without completedAt", turns)
	}
	if got := startTurn(t, client, 1, "in_1", "hello"); got != turn {
		t.Errorf("StartTurn(in_1) again = %s, want the lost turn %s", got, turn)
	}
}

func TestRealInterruptEndsTheTurnAndItsCommands(t *testing.T) {
	p := newPlace(t, newProvider(t, runs("sleep 600"), holds(nil, "")).url)
	_, client := serve(t, p.run)
	start(t, p, client)
	ev := follow(t, client, 1, nil)
	turn := startTurn(t, client, 1, "in_1", "sleep")
	ev.until("the command", func(e *hostpb.Event) bool {
		return strings.Contains(string(e.GetReceivedJson()), `"commandExecution"`)
	})
	got, err := client.Interrupt(withTime(t), &hostpb.InterruptRequest{Fence: fenceAt(1), CommandId: "c1", TurnId: turn, CleanBackground: true})
	must(t, "Interrupt", err, got.GetFailure())
	ev.received("turn/completed")
	state, err := client.Inspect(withTime(t), &hostpb.InspectRequest{})
	if err != nil || state.GetState().GetActiveTurnId() != "" || state.GetState().GetTurns()[0].GetStatus() != "interrupted" {
		t.Errorf("state = %v, %v; want the turn interrupted", state, err)
	}
	awaitNone(t, "sleep 600")
}

// awaitNone fails when a process of this agent with that command line lives on
// for longer than patience.
func awaitNone(t *testing.T, line string) {
	t.Helper()
	for _, id := range marked(t) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), "\x00", " "), line) {
			continue
		}
		h, err := process.Open(id)
		if errors.Is(err, process.ErrGone) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.Done():
		case <-time.After(patience):
			t.Errorf("%v (%s) lives on", id, line)
		}
		_ = h.Close()
	}
}

// marked returns the living processes of this test's agent.
func marked(t *testing.T) []process.Identity {
	t.Helper()
	ids, err := process.Marked(func(mark string) bool { return strings.HasPrefix(mark, agentRefOf+"/") })
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestRealStopLeavesNoProcess(t *testing.T) {
	started := make(chan struct{})
	p := newPlace(t, newProvider(t,
		runs("setsid sleep 601 >/dev/null 2>&1 & setsid sh -c 'env -u MMO_AGENT sleep 602' >/dev/null 2>&1 & sleep 603 & wait"),
		func(s *sse, body []byte) { // asked when the command runs in the background
			close(started)
			holds(nil, "")(s, body)
		}).url)
	_, client := serve(t, p.run)
	start(t, p, client)
	ev := follow(t, client, 1, nil)
	startTurn(t, client, 1, "in_1", "start them")
	select {
	case <-started:
	case <-time.After(patience):
		t.Fatal("the command did not start")
	}
	pids := sleepers(t)
	if len(pids) != 3 {
		t.Fatalf("%d sleepers run, want 3", len(pids))
	}
	out, err := client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1), GraceMs: 500})
	if err != nil || len(out.GetSurvivors()) > 0 || !out.GetEngineWasRunning() {
		t.Errorf("Stop() = %v, %v; want no survivors of a running engine", out, err)
	}
	if left := sleepers(t); len(left) > 0 {
		t.Errorf("sleepers %v live on", left)
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("marked processes %v live on", left)
	}
	ev.until("the engine's end", func(e *hostpb.Event) bool { return e.GetExited() != nil })
	again, err := client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1), GraceMs: 500})
	if err != nil || len(again.GetSurvivors()) > 0 || again.GetEngineWasRunning() {
		t.Errorf("second Stop() = %v, %v; want nothing left to stop", again, err)
	}
}

// sleepers returns the pids of the commands sleep 601, 602 and 603.
func sleepers(t *testing.T) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		switch strings.TrimRight(string(text), "\x00") {
		case "sleep\x00601", "sleep\x00602", "sleep\x00603":
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Spec: R064
func TestRealStopGetsThroughToAnEngineThatHangsInItsHandshake(t *testing.T) {
	p := newPlace(t, newProvider(t, says("x")).url)
	_, client := serve(t, p.run)
	launched, err := client.Launch(withTime(t), p.launch(1))
	must(t, "Launch", err, launched.GetFailure())
	engine := launched.GetHandle().GetEngine()
	if engine.GetPid() == 0 || engine.GetStartToken() == "" || engine.GetPgid() != engine.GetPid() || launched.GetHandle().GetThreadId() != "" {
		t.Errorf("handle before the handshake = %v, want the process and no thread", launched.GetHandle())
	}
	if err := syscall.Kill(int(engine.GetPid()), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	open := async(func(ctx context.Context) (*hostpb.OpenResponse, error) {
		return client.Open(ctx, &hostpb.OpenRequest{Fence: fenceAt(1), Thread: p.spec()})
	})
	out, err := client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1), GraceMs: 100})
	if err != nil || len(out.GetSurvivors()) > 0 {
		t.Errorf("Stop() = %v, %v; want no survivors", out, err)
	}
	if got := open(t); got.GetFailure() == nil {
		t.Errorf("Open() of a stopped engine = %v, want a failure", got)
	}
	if left := marked(t); len(left) > 0 {
		t.Errorf("marked processes %v live on", left)
	}
}
