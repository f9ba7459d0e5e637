package plugintest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
	"github.com/codex-mmo/codex-mmo/plugins/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fence(epoch uint64) *basepb.Fence { return &basepb.Fence{SessionId: "s_1", Epoch: epoch} }

func withTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// opened returns a double with an open thread, and a client.
func opened(t *testing.T) (*plugintest.Host, hostpb.HostClient) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt") // short: t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host := plugintest.NewHost(t, filepath.Join(dir, "h.sock"), nil)
	client := hostpb.NewHostClient(host.Dial())
	if _, err := client.Launch(withTime(t), &hostpb.LaunchRequest{Fence: fence(1), AgentRef: "ar_1", Generation: 1}); err != nil {
		t.Fatal(err)
	}
	out, err := client.Open(withTime(t), &hostpb.OpenRequest{Fence: fence(1), Thread: &hostpb.ThreadSpec{
		Open: &hostpb.ThreadSpec_Start{Start: true}, Permissions: "mmo-ro",
	}})
	if err != nil || out.GetEcho().GetPermissionProfile() != "mmo-ro" || out.GetHandle().GetThreadId() != "thread_1" {
		t.Fatalf("Open() = %v, %v", out, err)
	}
	return host, client
}

func startTurn(t *testing.T, client hostpb.HostClient, id string) (*hostpb.CommandResponse, error) {
	t.Helper()
	return client.StartTurn(withTime(t), &hostpb.StartTurnRequest{Fence: fence(1), CommandId: id, Text: "x"})
}

// methods reads n rows from the start and returns "seq method".
func methods(t *testing.T, client hostpb.HostClient, n int) []string {
	t.Helper()
	stream, err := client.Events(withTime(t), &hostpb.EventsRequest{Fence: fence(1)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range n {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		_, rest, _ := strings.Cut(string(event.GetReceivedJson()), `"method":"`)
		method, _, _ := strings.Cut(rest, `"`)
		got = append(got, fmt.Sprintf("%d %s", event.GetPosition().GetSeq(), method))
	}
	return got
}

func TestACompletionCanPrecedeTheAnswer(t *testing.T) {
	host, client := opened(t)
	host.During("StartTurn", func() { host.Complete("completed", "done") })
	got, err := startTurn(t, client, "in_1")
	if err != nil || got.GetTurnId() != "turn_1" {
		t.Fatalf("StartTurn() = %v, %v", got, err)
	}
	if got := fmt.Sprint(methods(t, client, 2)); got != "[1 turn/started 2 turn/completed]" {
		t.Errorf("rows = %v", got)
	}
	read, err := client.Read(withTime(t), &hostpb.ReadRequest{})
	if err != nil || read.GetState().GetActiveTurnId() != "" || read.GetState().GetTurns()[0].GetFinalText() != "done" {
		t.Errorf("Read() = %v, %v; want the turn done", read, err)
	}
}

func TestADeadHostHasHadTheEffectOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		die      func(*plugintest.Host)
		repeated bool
	}{
		"before the effect": {func(h *plugintest.Host) { h.DieBefore("StartTurn") }, false},
		"after the effect":  {func(h *plugintest.Host) { h.DieAfter("StartTurn") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			host, client := opened(t)
			c.die(host)
			if _, err := startTurn(t, client, "in_1"); status.Code(err) != codes.Unavailable {
				t.Fatalf("StartTurn() of a dying host = %v, want Unavailable", err)
			}
			host.Restart()
			client = hostpb.NewHostClient(host.Dial())
			got, err := startTurn(t, client, "in_1")
			if err != nil || got.GetRepeatedCommand() != c.repeated {
				t.Errorf("StartTurn() again = %v, %v; want repeated %v", got, err, c.repeated)
			}
			if n := len(host.Calls("StartTurn")); n != 2 {
				t.Errorf("%d calls arrived, want 2", n)
			}
		})
	}
}

func TestAHeldAnswerWaits(t *testing.T) {
	host, client := opened(t)
	held := host.Hold("StartTurn")
	done := make(chan error, 1)
	go func() {
		_, err := startTurn(t, client, "in_1")
		done <- err
	}()
	<-held.Reached
	read, err := client.Read(withTime(t), &hostpb.ReadRequest{})
	if err != nil || read.GetState().GetActiveTurnId() != "turn_1" {
		t.Errorf("state while the answer is held = %v, %v; want turn_1 running", read, err)
	}
	select {
	case err := <-done:
		t.Errorf("the answer came before Release: %v", err)
	default:
	}
	held.Release()
	if err := <-done; err != nil {
		t.Errorf("StartTurn() = %v", err)
	}
}

func TestAnOlderEpochIsRefusedAndItsStreamEnds(t *testing.T) {
	host, client := opened(t)
	stream, err := client.Events(withTime(t), &hostpb.EventsRequest{Fence: fence(1)})
	if err != nil {
		t.Fatal(err)
	}
	host.Notify("warning", "{}")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Acknowledge(withTime(t), &hostpb.AcknowledgeRequest{Fence: fence(2)}); err != nil {
		t.Fatal(err)
	}
	if _, err := startTurn(t, client, "in_1"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("StartTurn() of epoch 1 = %v, want FailedPrecondition", err)
	}
	host.Notify("warning", "{}")
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("stream of epoch 1 = %v, want FailedPrecondition", err)
	}
}

func TestRequestsDeltasAndEnds(t *testing.T) {
	host, client := opened(t)
	stream, err := client.Events(withTime(t), &hostpb.EventsRequest{Fence: fence(1)})
	if err != nil {
		t.Fatal(err)
	}
	recv := func(stream grpc.ServerStreamingClient[hostpb.Event]) *hostpb.Event {
		t.Helper()
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return event
	}
	host.Ask(`"7"`, "item/tool/requestUserInput", "{}")
	if got := string(recv(stream).GetReceivedJson()); got != `{"id":"7","method":"item/tool/requestUserInput","params":{}}` {
		t.Errorf("request = %s", got)
	}
	host.Delta("item/agentMessage/delta", "{}")
	if got := recv(stream); !got.GetTransient() || got.GetPosition().GetSeq() != 0 {
		t.Errorf("delta = %v", got)
	}
	host.Hole("torn")
	host.Exit(9)
	if hole, exit := recv(stream), recv(stream); hole.GetHole().GetReason() != "torn" || exit.GetExited().GetSignal() != 9 || exit.GetPosition().GetSeq() != 3 {
		t.Errorf("rows = %v, %v", hole, exit)
	}
	for i, want := range []basepb.Delivery{basepb.Delivery_DELIVERY_APPLIED, basepb.Delivery_DELIVERY_REJECTED} {
		got, err := client.Respond(withTime(t), &hostpb.RespondRequest{Fence: fence(1), CommandId: fmt.Sprint(i), RequestId: `"7"`})
		if err != nil || got.GetDelivery() != want {
			t.Errorf("Respond() %d = %v, %v; want %v", i, got, err, want)
		}
	}
	host.Fail("Read", codes.DeadlineExceeded, "hangs")
	if _, err := client.Read(withTime(t), &hostpb.ReadRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Read() = %v, want the scripted error", err)
	}
}

func TestALostTurnHasNoEnd(t *testing.T) {
	host, client := opened(t)
	if _, err := startTurn(t, client, "in_1"); err != nil {
		t.Fatal(err)
	}
	host.Lose()
	out, err := client.Recover(withTime(t), &hostpb.RecoverRequest{Fence: fence(1), Handle: host.Handle()})
	if err != nil || out.GetOutcome() != hostpb.RecoverResponse_OUTCOME_ADOPTED {
		t.Fatalf("Recover() = %v, %v", out, err)
	}
	turn := out.GetState().GetTurns()[0]
	if turn.GetStatus() != "interrupted" || turn.GetHasCompletedAt() || turn.GetCommandIds()[0] != "in_1" {
		t.Errorf("lost turn = %v, want interrupted without completedAt", turn)
	}
}
