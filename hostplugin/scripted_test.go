package hostplugin_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver/appservertest"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// scripted is a host whose engine is the test: it has adopted a process that
// only sleeps, and its connection ends here.
type scripted struct {
	t      *testing.T
	dir    string
	server *appservertest.Server
	client hostpb.HostClient
	conn   *appservertest.Conn
	handle *hostpb.Handle
	sleep  *process.Child
}

// adopted returns a scripted host after Recover without a thread.
func adopted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{t: t, dir: testkit.PrivateDir(t)}
	sleep, err := process.Start(process.Spec{Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleep.Kill()
		<-sleep.Done()
	})
	s.sleep = sleep
	id := sleep.Identity()
	s.handle = &hostpb.Handle{
		Version: 1, AgentRef: agentRefOf, Generation: 1, Cwd: s.dir,
		Engine:     &basepb.Process{Pid: int32(id.PID), StartToken: id.StartToken, BootId: id.BootID, Pgid: int32(id.PGID), Sid: int32(id.SID), Command: id.Command},
		SocketPath: filepath.Join(s.dir, "app.sock"), SpoolDir: filepath.Join(s.dir, "spool"),
	}
	s.server = appservertest.Listen(t, s.handle.GetSocketPath())
	_, s.client = serve(t, s.dir)
	recovered := async(func(ctx context.Context) (*hostpb.RecoverResponse, error) {
		return s.client.Recover(ctx, &hostpb.RecoverRequest{Fence: fenceAt(1), Handle: s.handle})
	})
	s.conn = s.server.Accept(appservertest.Answer{})
	s.conn.Initialize()
	got := recovered(t)
	must(t, "Recover", nil, got.GetFailure())
	if got.GetOutcome() != hostpb.RecoverResponse_OUTCOME_ADOPTED {
		t.Fatalf("Recover() = %v, want adopted", got)
	}
	return s
}

// async runs a call beside the script; the returned function waits for it.
func async[T any](call func(context.Context) (T, error)) func(*testing.T) T {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		value, err := call(ctx)
		done <- outcome{value, err}
	}()
	return func(t *testing.T) T {
		t.Helper()
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		return got.value
	}
}

const scriptedThread = "th_own"

// opened is adopted plus Open of a resumed thread with the given turns (JSON
// members of an array).
func opened(t *testing.T, turns string) *scripted {
	t.Helper()
	s := adopted(t)
	opened := async(func(ctx context.Context) (*hostpb.OpenResponse, error) {
		return s.client.Open(ctx, &hostpb.OpenRequest{Fence: fenceAt(1), Thread: &hostpb.ThreadSpec{
			Open: &hostpb.ThreadSpec_ResumeThreadId{ResumeThreadId: scriptedThread}, Permissions: "mmo",
		}})
	})
	s.conn.Reply(s.conn.Expect("thread/goal/get"), `{"goal":null}`)
	s.conn.Reply(s.conn.Expect("thread/resume"), fmt.Sprintf(`{"thread":{"id":%q},"sandbox":{"type":"readOnly"},"approvalPolicy":"never"}`, scriptedThread))
	s.history("idle", turns)
	must(t, "Open", nil, opened(t).GetFailure())
	return s
}

// history answers the host's reading of the thread.
func (s *scripted) history(status, turns string) {
	s.t.Helper()
	s.conn.Reply(s.conn.Expect("thread/read"), fmt.Sprintf(`{"thread":{"id":%q,"status":{"type":%q}}}`, scriptedThread, status))
	s.conn.Reply(s.conn.Expect("thread/turns/list"), `{"data":[`+turns+`],"nextCursor":null}`)
}

func (s *scripted) inspect() *hostpb.ThreadState {
	s.t.Helper()
	got, err := s.client.Inspect(withTime(s.t), &hostpb.InspectRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetState()
}

// settled waits until the host has taken in all frames that were sent: answers
// come in wire order.
func (s *scripted) settled() *hostpb.ThreadState {
	s.t.Helper()
	done := async(func(ctx context.Context) (*hostpb.ReadResponse, error) {
		return s.client.Read(ctx, &hostpb.ReadRequest{})
	})
	s.history("idle", "")
	done(s.t)
	return s.inspect()
}

func (s *scripted) startTurn(id string) func(*testing.T) *hostpb.CommandResponse {
	return async(func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return s.client.StartTurn(ctx, &hostpb.StartTurnRequest{Fence: fenceAt(1), CommandId: id, Text: "do it"})
	})
}

func (s *scripted) interrupt(id, turn string) func(*testing.T) *hostpb.CommandResponse {
	return async(func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return s.client.Interrupt(ctx, &hostpb.InterruptRequest{Fence: fenceAt(1), CommandId: id, TurnId: turn})
	})
}

func completed(thread, turn, status string) string {
	return fmt.Sprintf(`{%s"turn":{"id":%q,"status":%q,"completedAt":1,"items":[{"type":"agentMessage","text":"said"}]}}`, thread, turn, status)
}

const ownThread = `"threadId":"` + scriptedThread + `",`

// Spec: A010
func TestAStaleTurnIsInterruptedAndNotTakenForAResult(t *testing.T) {
	s := opened(t, `{"id":"turn_stale","status":"inProgress","completedAt":null,"items":[]}`)
	if got := s.inspect().GetActiveTurnId(); got != "turn_stale" {
		t.Fatalf("active turn after resume = %q, want turn_stale", got)
	}
	// The requests up to here were thread/resume alone; the next is the interrupt.
	done := s.interrupt("c1", "turn_stale")
	request := s.conn.Expect("turn/interrupt")
	if diff := cmp.Diff(`{"threadId":"th_own","turnId":"turn_stale"}`, string(request.Params)); diff != "" {
		t.Errorf("params of turn/interrupt (-want +got):\n%s", diff)
	}
	s.conn.Notify("turn/completed", completed(ownThread, "turn_stale", "interrupted"))
	s.conn.Reply(request, `{}`)
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("Interrupt() = %v, want applied", got)
	}
	state := s.settled()
	if state.GetActiveTurnId() != "" {
		t.Errorf("active turn = %q, want none", state.GetActiveTurnId())
	}
	if len(state.GetTurns()) != 1 || state.GetTurns()[0].GetStatus() != "interrupted" {
		t.Errorf("last turn = %v, want the interrupted one and no result", state.GetTurns())
	}
}

// Spec: A011
func TestACompletionThatRacesARefusedInterruptIsKept(t *testing.T) {
	s := opened(t, `{"id":"turn_1","status":"inProgress","completedAt":null,"items":[]}`)
	done := s.interrupt("c1", "turn_1")
	s.conn.Refuse(s.conn.Expect("turn/interrupt"), -32600, "interrupt rejected")
	s.conn.Notify("turn/completed", completed(ownThread, "turn_1", "completed"))
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("Interrupt() = %v, want applied: the turn is over", got)
	}
	state := s.inspect()
	if state.GetActiveTurnId() != "" || len(state.GetTurns()) != 1 ||
		state.GetTurns()[0].GetStatus() != "completed" || state.GetTurns()[0].GetFinalText() != "said" {
		t.Errorf("state = %v, want no active turn and the completed one", state)
	}
}

// Spec: A012
func TestARefusedInterruptOfARunningTurnIsAnError(t *testing.T) {
	s := opened(t, `{"id":"turn_1","status":"inProgress","completedAt":null,"items":[]}`)
	done := s.interrupt("c1", "turn_1")
	s.conn.Refuse(s.conn.Expect("turn/interrupt"), -32600, "interrupt rejected")
	s.conn.Notify("turn/completed", completed(ownThread, "turn_other", "completed"))
	got := done(t)
	if got.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || got.GetFailure().GetEngineCode() != -32600 ||
		got.GetFailure().GetMessage() != "app-server refused: interrupt rejected (code -32600)" {
		t.Errorf("Interrupt() = %v, want the engine's own refusal", got)
	}
	if s.inspect().GetActiveTurnId() != "turn_1" {
		t.Errorf("active turn = %q, want turn_1", s.inspect().GetActiveTurnId())
	}
}

// Spec: A013
func TestACompletionBeforeTheAnswerToTurnStartIsKept(t *testing.T) {
	for name, thread := range map[string]string{"of the thread": ownThread, "of no thread": ""} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, "")
			done := s.startTurn("in_1")
			request := s.conn.Expect("turn/start")
			s.conn.Notify("turn/completed", completed(thread, "turn_1", "completed"))
			s.conn.Reply(request, `{"turn":{"id":"turn_1","status":"inProgress","items":[]}}`)
			if got := done(t); got.GetTurnId() != "turn_1" || got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
				t.Errorf("StartTurn() = %v, want turn_1", got)
			}
			state := s.inspect()
			if state.GetActiveTurnId() != "" || len(state.GetTurns()) != 1 || state.GetTurns()[0].GetId() != "turn_1" {
				t.Errorf("state = %v, want turn_1 completed and no active turn", state)
			}
		})
	}
}

// Spec: A014
func TestOtherThreadsChangeNothing(t *testing.T) {
	s := opened(t, "")
	before := s.inspect()
	for _, key := range []string{"threadId", "conversationId"} {
		foreign := fmt.Sprintf(`"%s":"th_other",`, key)
		s.conn.Notify("turn/started", fmt.Sprintf(`{%s"turn":{"id":"t9","status":"inProgress","items":[]}}`, foreign))
		s.conn.Notify("thread/goal/updated", `{`+foreign+`"goal":{"status":"active"}}`)
		s.conn.Notify("thread/status/changed", `{`+foreign+`"status":{"type":"active"}}`)
		s.conn.Notify("turn/completed", completed(foreign, "t9", "completed"))
	}
	if diff := cmp.Diff(before.String(), s.settled().String()); diff != "" {
		t.Errorf("state after frames of another thread (-want +got):\n%s", diff)
	}
	s.conn.Notify("turn/started", `{"conversationId":"th_own","turn":{"id":"t1","status":"inProgress","items":[]}}`)
	if got := s.settled().GetActiveTurnId(); got != "t1" {
		t.Errorf("active turn = %q, want t1", got)
	}
	s.conn.Notify("turn/completed", completed(ownThread, "t1", "completed"))
	state := s.settled()
	if state.GetActiveTurnId() != "" || state.GetTurns()[0].GetId() != "t1" {
		t.Errorf("state = %v, want t1 as the last turn and none active", state)
	}
}

func TestACommandIsSentOnceAndAnsweredTheSameAgain(t *testing.T) {
	s := opened(t, "")
	first := s.startTurn("in_1")
	request := s.conn.Expect("turn/start")
	second := s.startTurn("in_1") // while the first is under way
	s.conn.Reply(request, `{"turn":{"id":"turn_1","status":"inProgress","items":[]}}`)
	a, b := first(t), second(t)
	if a.GetRepeatedCommand() == b.GetRepeatedCommand() {
		t.Errorf("repeated_command = %v and %v, want it on one of the two", a.GetRepeatedCommand(), b.GetRepeatedCommand())
	}
	again := s.startTurn("in_1")(t)
	if a.GetTurnId() != "turn_1" || b.GetTurnId() != "turn_1" || again.GetTurnId() != "turn_1" || !again.GetRepeatedCommand() {
		t.Errorf("answers = %v, %v, %v; want turn_1 in all", a, b, again)
	}
	next := s.startTurn("in_2") // the next frame on the wire: in_1 was sent once
	request = s.conn.Expect("turn/start")
	s.conn.Reply(request, `{"turn":{"id":"turn_2","status":"inProgress","items":[]}}`)
	next(t)
	_, err := s.client.Interrupt(withTime(t), &hostpb.InterruptRequest{Fence: fenceAt(1), CommandId: "in_1", TurnId: "x"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("in_1 used for another kind = %v, want InvalidArgument", err)
	}
}

func TestARefusedTurnIsRejectedForEver(t *testing.T) {
	s := opened(t, "")
	done := s.startTurn("in_1")
	s.conn.Refuse(s.conn.Expect("turn/start"), -32600, "no")
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || got.GetFailure().GetKind() != "refused" {
		t.Errorf("StartTurn() = %v, want rejected", got)
	}
	if got := s.startTurn("in_1")(t); got.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || !got.GetRepeatedCommand() {
		t.Errorf("StartTurn() again = %v, want the same answer", got)
	}
}

func TestAnOlderEpochIsRefused(t *testing.T) {
	s := opened(t, "")
	stream := follow(t, s.client, 1, nil)
	stream.until("the first row", func(*hostpb.Event) bool { return true })
	if _, err := s.client.Acknowledge(withTime(t), &hostpb.AcknowledgeRequest{Fence: fenceAt(2), Through: &hostpb.Position{}}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"StartTurn": func() error {
			_, err := s.client.StartTurn(withTime(t), &hostpb.StartTurnRequest{Fence: fenceAt(1), CommandId: "x", Text: "x"})
			return err
		},
		"Stop": func() error {
			_, err := s.client.Stop(withTime(t), &hostpb.StopRequest{Fence: fenceAt(1)})
			return err
		},
		"another session": func() error {
			_, err := s.client.Stop(withTime(t), &hostpb.StopRequest{Fence: &basepb.Fence{SessionId: "s_other", Epoch: 9}})
			return err
		},
		"the open stream": func() error {
			for {
				if _, err := stream.stream.Recv(); err != nil {
					return err
				}
			}
		},
	}
	for name, call := range calls {
		if err := call(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s of an older epoch = %v, want FailedPrecondition", name, err)
		}
	}
	if _, err := s.client.Stop(withTime(t), &hostpb.StopRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("Stop without a fence = %v, want InvalidArgument", err)
	}
}

func TestRequestsAreAnsweredOnceAndByTheirID(t *testing.T) {
	s := opened(t, "")
	s.conn.Ask(`"7"`, "item/commandExecution/requestApproval", `{"threadId":"th_child","command":"x"}`)
	s.conn.Ask(`7`, "item/tool/requestUserInput", `{"threadId":"th_own"}`)
	s.conn.Ask(`8`, "item/tool/requestUserInput", `{"threadId":"th_own"}`)
	pending := s.settled().GetPending()
	if len(pending) != 3 || pending[0].GetRequestId() != `"7"` || pending[0].GetMethod() != "item/commandExecution/requestApproval" {
		t.Fatalf("pending = %v, want the three in order", pending)
	}
	respond := func(id, request, result string) *hostpb.CommandResponse {
		t.Helper()
		got, err := s.client.Respond(withTime(t), &hostpb.RespondRequest{
			Fence: fenceAt(1), CommandId: id, RequestId: request, ResultJson: []byte(result),
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for i, bad := range []string{``, `x`, `7.5`, `{"a":1}`, `"open`, `7 `, `null`} {
		if got := respond(fmt.Sprintf("bad%d", i), bad, `{}`); got.GetFailure().GetKind() != "invalid" {
			t.Errorf("Respond to id %q = %v, want invalid", bad, got)
		}
	}
	if got := respond("bad_json", "7", `{`); got.GetFailure().GetKind() != "invalid" {
		t.Errorf("Respond with broken JSON = %v, want invalid", got)
	}
	if got := respond("r1", `"7"`, "{\n\"decision\": \"decline\"}"); got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("Respond() = %v, want applied", got)
	}
	if f := s.conn.Frame(); string(f.Payload) != `{"id":"7","result":{"decision":"decline"}}` {
		t.Errorf("reply on the wire = %s", f.Payload)
	}
	if got := respond("r2", `"7"`, `{}`); got.GetFailure().GetKind() != "stale" {
		t.Errorf("second Respond() = %v, want stale", got)
	}
	s.conn.Notify("serverRequest/resolved", `{"threadId":"th_own","requestId":8}`)
	if pending := s.settled().GetPending(); len(pending) != 1 || pending[0].GetRequestId() != "7" {
		t.Errorf("pending after resolved = %v, want 7 alone", pending)
	}
	if got := respond("r3", `8`, `{}`); got.GetFailure().GetKind() != "stale" {
		t.Errorf("Respond() to a withdrawn request = %v, want stale", got)
	}
}

func TestDeltasAreForwardedAndNotKept(t *testing.T) {
	s := opened(t, "")
	live := follow(t, s.client, 1, nil)
	// The stream stands once it has sent a row that is newer than it.
	s.conn.Notify("warning", `{"message":"mark"}`)
	live.received("warning")
	s.conn.Notify("item/agentMessage/delta", `{"threadId":"th_own","delta":"a"}`)
	delta := live.received("item/agentMessage/delta")
	if !delta.GetTransient() || delta.GetPosition().GetSeq() != 0 {
		t.Errorf("delta = %v, want transient with seq 0", delta)
	}
	s.conn.Notify("item/completed", `{"threadId":"th_own","item":{}}`)
	last := live.received("item/completed")
	again := follow(t, s.client, 1, &hostpb.Position{})
	again.until("the last row", func(e *hostpb.Event) bool { return e.GetPosition().GetSeq() == last.GetPosition().GetSeq() })
	for i, e := range again.seen {
		if e.GetTransient() || e.GetPosition().GetSeq() != uint64(i+1) {
			t.Errorf("replayed row %d = %v", i, e)
		}
	}
}

func TestToolsAreReadyBeforeReloadAnswers(t *testing.T) {
	s := opened(t, "")
	reload := func(id string) func(*testing.T) *hostpb.CommandResponse {
		return async(func(ctx context.Context) (*hostpb.CommandResponse, error) {
			return s.client.ReloadTools(ctx, &hostpb.ReloadToolsRequest{Fence: fenceAt(1), CommandId: id, Server: "mmo_mesh", TimeoutMs: 9000})
		})
	}
	event := func(name, status, reason string) {
		s.conn.Notify("mcpServer/startupStatus/updated", fmt.Sprintf(`{"threadId":"th_own","name":%q,"status":%q,"error":%s}`, name, status, reason))
	}
	event("mmo_mesh", "ready", "null") // an earlier start does not count
	s.settled()
	done := reload("c1")
	s.conn.Reply(s.conn.Expect("config/mcpServer/reload"), `{}`)
	event("other", "ready", "null")
	event("mmo_mesh", "starting", "null")
	event("mmo_mesh", "ready", "null")
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("ReloadTools() = %v, want applied", got)
	}
	done = reload("c2")
	s.conn.Reply(s.conn.Expect("config/mcpServer/reload"), `{}`)
	event("mmo_mesh", "failed", `"no such file"`)
	if got := done(t); got.GetFailure().GetKind() != "tools_failed" || got.GetFailure().GetMessage() != "MCP server mmo_mesh is failed: no such file" {
		t.Errorf("ReloadTools() of a server that fails = %v", got)
	}
}

func TestALostConnectionIsMadeAgainAndTheGapTold(t *testing.T) {
	s := opened(t, "")
	live := follow(t, s.client, 1, nil)
	done := s.startTurn("in_1")
	s.conn.Expect("turn/start")
	s.conn.Close()
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_UNKNOWN {
		t.Errorf("StartTurn() = %v, want unknown", got)
	}
	s.conn = s.server.Accept(appservertest.Answer{})
	s.conn.Initialize()
	s.conn.Reply(s.conn.Expect("thread/loaded/list"), `{"data":["th_other","th_own"]}`)
	s.conn.Reply(s.conn.Expect("thread/resume"), `{"thread":{"id":"th_own"}}`)
	turn := `{"id":"turn_1","status":"inProgress","completedAt":null,"items":[{"type":"userMessage","clientId":"in_1","content":[]}]}`
	s.history("active", turn)
	live.until("the hole", func(e *hostpb.Event) bool { return e.GetHole() != nil })
	attached := live.until("attached", func(e *hostpb.Event) bool { return e.GetAttached() != nil })
	if got := attached.GetAttached().GetState().GetActiveTurnId(); got != "turn_1" {
		t.Errorf("attached to a thread with active turn %q, want turn_1", got)
	}
	// Asked again, the command is found in the history, not sent.
	done = s.startTurn("in_1")
	s.history("active", turn)
	if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED || got.GetTurnId() != "turn_1" || !got.GetRepeatedCommand() {
		t.Errorf("StartTurn() again = %v, want turn_1 found", got)
	}
}

func TestAnInputThatIsNotInTheHistoryStaysUnknown(t *testing.T) {
	s := opened(t, "")
	done := s.startTurn("in_1")
	s.conn.Expect("turn/start")
	s.conn.Close()
	done(t)
	s.conn = s.server.Accept(appservertest.Answer{})
	s.conn.Initialize()
	s.conn.Reply(s.conn.Expect("thread/loaded/list"), `{"data":["th_own"]}`)
	s.conn.Reply(s.conn.Expect("thread/resume"), `{"thread":{"id":"th_own"}}`)
	s.history("idle", "")
	live := follow(t, s.client, 1, nil)
	live.until("attached again", func(e *hostpb.Event) bool { return e.GetAttached().GetState().GetThreadId() == scriptedThread })
	for range 2 {
		done = s.startTurn("in_1")
		s.history("idle", "") // it is looked up each time, and never sent
		if got := done(t); got.GetDelivery() != basepb.Delivery_DELIVERY_UNKNOWN {
			t.Errorf("StartTurn() = %v, want unknown", got)
		}
	}
}

func TestTheEnginesEndIsARow(t *testing.T) {
	s := opened(t, "")
	live := follow(t, s.client, 1, nil)
	_ = s.sleep.Kill()
	exited := live.until("the end", func(e *hostpb.Event) bool { return e.GetExited() != nil })
	if exited.GetExited().GetKnown() {
		t.Errorf("exited = %v, want unknown: it was not the host's child", exited)
	}
	got, err := s.client.Recover(withTime(t), &hostpb.RecoverRequest{Fence: fenceAt(1), Handle: s.handle})
	if err != nil || got.GetOutcome() != hostpb.RecoverResponse_OUTCOME_ENGINE_GONE {
		t.Errorf("Recover() = %v, %v; want engine gone", got, err)
	}
	if got := s.startTurn("in_1")(t); got.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || got.GetFailure().GetKind() != "engine_gone" {
		t.Errorf("StartTurn() = %v, want rejected: engine gone", got)
	}
}

func TestRecoverTellsWhatItCannotAdopt(t *testing.T) {
	dir := testkit.PrivateDir(t)
	_, client := serve(t, dir)
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	living := &basepb.Process{Pid: int32(self.PID), StartToken: self.StartToken, BootId: self.BootID}
	dead := &basepb.Process{Pid: int32(self.PID), StartToken: self.StartToken + "0", BootId: self.BootID}
	handle := func(version uint32, p *basepb.Process) *hostpb.Handle {
		return &hostpb.Handle{
			Version: version, AgentRef: agentRefOf, Generation: 1, Engine: p,
			SocketPath: filepath.Join(dir, "none.sock"), SpoolDir: filepath.Join(dir, "spool"),
		}
	}
	for _, c := range []struct {
		name   string
		handle *hostpb.Handle
		want   hostpb.RecoverResponse_Outcome
	}{
		{"newer version", handle(2, living), hostpb.RecoverResponse_OUTCOME_UNREADABLE},
		{"no process", handle(1, nil), hostpb.RecoverResponse_OUTCOME_UNREACHABLE},
		{"pid alone", handle(1, &basepb.Process{Pid: int32(self.PID)}), hostpb.RecoverResponse_OUTCOME_UNREACHABLE},
		{"another process of that number", handle(1, dead), hostpb.RecoverResponse_OUTCOME_ENGINE_GONE},
		{"does not answer", handle(1, living), hostpb.RecoverResponse_OUTCOME_UNREACHABLE},
	} {
		got, err := client.Recover(withTime(t), &hostpb.RecoverRequest{Fence: fenceAt(1), Handle: c.handle, TimeoutMs: 50})
		if err != nil || got.GetOutcome() != c.want || got.GetFailure() == nil {
			t.Errorf("%s: Recover() = %v, %v; want %v with a failure", c.name, got, err, c.want)
		}
	}
}
