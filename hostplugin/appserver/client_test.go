package appserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver/appservertest"
)

// answered is the outcome of a Call that runs beside the peer.
type answered struct {
	result json.RawMessage
	err    error
}

func call(ctx context.Context, client *appserver.Client, method string, params any) <-chan answered {
	out := make(chan answered, 1)
	go func() {
		result, err := client.Call(ctx, method, params)
		out <- answered{result, err}
	}()
	return out
}

// clock is the After of a client under test: it fires at once and remembers.
type clock struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (c *clock) after(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, d)
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired
}

const overloaded = "Server overloaded; retry later."

// Spec: A044
func TestOverloadIsRetriedWithAFreshID(t *testing.T) {
	clk := &clock{}
	client, conn := connected(t, &appserver.Options{After: clk.after, Jitter: func() float64 { return 1.5 }})
	out := call(withTime(t), client, "thread/read", map[string]any{})
	for range 2 {
		conn.Refuse(conn.Expect("thread/read"), -32001, overloaded)
	}
	last := conn.Expect("thread/read")
	conn.Reply(last, `{"ok":true}`)
	if got := <-out; got.err != nil || string(got.result) != `{"ok":true}` {
		t.Errorf("Call() = %s, %v; want {\"ok\":true}", got.result, got.err)
	}
	if last.Raw != `{"id":3,"method":"thread/read","params":{}}` {
		t.Errorf("third request = %s, want id 3 and no jsonrpc", last.Raw)
	}
	want := []time.Duration{150 * time.Millisecond, 300 * time.Millisecond}
	if diff := cmp.Diff(want, clk.waits); diff != "" {
		t.Errorf("delays of 0.1 s and 0.2 s times 1.5 (-want +got):\n%s", diff)
	}
}

func TestOverloadIsNotRetriedBeyondTheCallersTime(t *testing.T) {
	client, conn := connected(t, &appserver.Options{Jitter: func() float64 { return 1e6 }})
	out := call(withTime(t), client, "thread/read", nil)
	conn.Refuse(conn.Expect("thread/read"), -32001, overloaded)
	var refused *appserver.RPCError
	if got := <-out; !errors.As(got.err, &refused) || !refused.Overloaded() {
		t.Errorf("Call() = %v, want the overload", got.err)
	}
}

// Spec: A045
func TestOtherErrorsAreNotRetried(t *testing.T) {
	for name, refusal := range map[string]struct {
		code    int
		message string
	}{
		"other message":         {-32001, "thread not found"},
		"same message, no stop": {-32001, "Server overloaded; retry later"},
		"same message, shouted": {-32001, "SERVER OVERLOADED; RETRY LATER."},
		"other code":            {-32600, overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &clock{}
			client, conn := connected(t, &appserver.Options{After: clk.after})
			out := call(withTime(t), client, "thread/read", nil)
			conn.Refuse(conn.Expect("thread/read"), refusal.code, refusal.message)
			var refused *appserver.RPCError
			got := <-out
			if !errors.As(got.err, &refused) || refused.Message != refusal.message || refused.Code != int64(refusal.code) {
				t.Errorf("Call() = %v, want the server's words", got.err)
			}
			// The next request is the next one on the wire: nothing was retried.
			next := call(withTime(t), client, "next", nil)
			conn.Reply(conn.Expect("next"), `{}`)
			<-next
			if len(clk.waits) > 0 {
				t.Errorf("waited %v before a retry, want none", clk.waits)
			}
		})
	}
}

// Spec: A042
func TestSentFramesAreRecordedInWireOrder(t *testing.T) {
	var recorded []string // the write lock is the only thing that guards it
	client, conn := connected(t, &appserver.Options{Sent: func(frame []byte) error {
		recorded = append(recorded, string(frame))
		return nil
	}})
	const n = 40
	outs := make([]<-chan answered, n)
	for i := range outs {
		outs[i] = call(withTime(t), client, fmt.Sprintf("m%d", i), map[string]any{"text": "<&>"})
	}
	var wire []string
	for range n {
		m := conn.Message()
		wire = append(wire, m.Raw)
		conn.Reply(m, `{}`)
	}
	for _, out := range outs {
		if got := <-out; got.err != nil {
			t.Errorf("Call() = %v", got.err)
		}
	}
	if diff := cmp.Diff(wire, recorded); diff != "" {
		t.Errorf("records differ from the wire (-wire +recorded):\n%s", diff)
	}
	for _, frame := range recorded {
		if strings.Contains(frame, "jsonrpc") || !strings.Contains(frame, `"<&>"`) {
			t.Errorf("frame %s, want no jsonrpc member and the text as given", frame)
		}
	}
}

// Spec: A042
func TestAFrameThatCannotBeRecordedIsNotSent(t *testing.T) {
	full := errors.New("no space")
	fail := true
	client, conn := connected(t, &appserver.Options{Sent: func([]byte) error {
		if fail {
			return full
		}
		return nil
	}})
	_, err := client.Call(withTime(t), "turn/start", nil)
	if !errors.Is(err, appserver.ErrNotSent) || !errors.Is(err, full) {
		t.Errorf("Call() = %v, want ErrNotSent with its cause", err)
	}
	fail = false
	out := call(withTime(t), client, "next", nil)
	conn.Reply(conn.Expect("next"), `{}`) // turn/start never came
	<-out
}

func TestAnswersFindTheirCallersOutOfOrder(t *testing.T) {
	var seen []string
	client, conn := connected(t, &appserver.Options{Received: func(m appserver.Message) {
		seen = append(seen, m.Answers+m.Method)
	}})
	a := call(withTime(t), client, "a", nil)
	first := conn.Expect("a")
	b := call(withTime(t), client, "b", nil)
	second := conn.Expect("b")
	conn.Text(`{"id":99,"result":{}}`)         // nobody's
	conn.Text(`{"id":"1","result":{"no":1}}`)  // a string is another id
	conn.Notify("turn/started", `{"later":1}`) // unknown members are left alone
	conn.Reply(second, `"b"`)
	conn.Reply(first, `"a"`)
	conn.Reply(first, `"again"`)
	if got := <-b; string(got.result) != `"b"` {
		t.Errorf("Call(b) = %s, %v", got.result, got.err)
	}
	if got := <-a; string(got.result) != `"a"` {
		t.Errorf("Call(a) = %s, %v", got.result, got.err)
	}
	client.Close()
	if diff := cmp.Diff([]string{"", "", "turn/started", "b", "a"}, seen[:5]); diff != "" {
		t.Errorf("frames in wire order (-want +got):\n%s", diff)
	}
}

func TestALostConnectionLeavesACallUnanswered(t *testing.T) {
	client, conn := connected(t, nil)
	out := call(withTime(t), client, "turn/start", nil)
	conn.Expect("turn/start")
	conn.Close()
	if got := <-out; !errors.Is(got.err, appserver.ErrUnanswered) {
		t.Errorf("Call() = %v, want ErrUnanswered", got.err)
	}
	if _, err := client.Call(withTime(t), "turn/start", nil); !errors.Is(err, appserver.ErrNotSent) {
		t.Errorf("Call() after the end = %v, want ErrNotSent", err)
	}
	if err := client.Notify("x", nil); !errors.Is(err, appserver.ErrNotSent) {
		t.Errorf("Notify() after the end = %v, want ErrNotSent", err)
	}
}

func TestACallersEndLeavesTheConnectionAlone(t *testing.T) {
	client, conn := connected(t, nil)
	ctx, cancel := context.WithCancel(withTime(t))
	out := call(ctx, client, "slow", nil)
	slow := conn.Expect("slow")
	cancel()
	if got := <-out; !errors.Is(got.err, appserver.ErrUnanswered) || !errors.Is(got.err, context.Canceled) {
		t.Errorf("Call() = %v, want ErrUnanswered by cancel", got.err)
	}
	conn.Reply(slow, `{}`) // too late, and for nobody
	next := call(withTime(t), client, "next", nil)
	conn.Reply(conn.Expect("next"), `7`)
	if got := <-next; string(got.result) != "7" {
		t.Errorf("Call(next) = %s, %v", got.result, got.err)
	}
}

func TestUnansweredRequestsAreBounded(t *testing.T) {
	client, conn := connected(t, &appserver.Options{InFlight: 2})
	a := call(withTime(t), client, "a", nil)
	first := conn.Expect("a")
	b := call(withTime(t), client, "b", nil)
	second := conn.Expect("b")
	ctx, cancel := context.WithCancel(withTime(t))
	c := call(ctx, client, "c", nil)
	cancel()
	if got := <-c; !errors.Is(got.err, appserver.ErrNotSent) {
		t.Errorf("third Call() = %v, want ErrNotSent: two are unanswered", got.err)
	}
	conn.Reply(first, `{}`)
	<-a
	d := call(withTime(t), client, "d", nil)
	conn.Reply(conn.Expect("d"), `{}`)
	conn.Reply(second, `{}`)
	<-b
	<-d
}

func TestRepliesKeepTheRequestsID(t *testing.T) {
	asked := make(chan appserver.Message, 1)
	client, conn := connected(t, &appserver.Options{Received: func(m appserver.Message) { asked <- m }})
	for _, id := range []string{`7`, `"7"`, `"a b"`} {
		conn.Ask(id, "item/tool/requestUserInput", `{}`)
		m := <-asked
		if !m.IsRequest() || string(m.ID) != id {
			t.Fatalf("request arrived as %+v, want id %s", m, id)
		}
		if err := client.Reply(m.ID, json.RawMessage(`{"answers":{}}`)); err != nil {
			t.Fatal(err)
		}
		if f := conn.Frame(); string(f.Payload) != `{"id":`+id+`,"result":{"answers":{}}}` {
			t.Errorf("reply = %s", f.Payload)
		}
	}
}

func TestFramesOver16MiBAreNotSent(t *testing.T) {
	client, _ := connected(t, nil)
	_, err := client.Call(withTime(t), "turn/start", strings.Repeat("x", 16<<20))
	if !errors.Is(err, appserver.ErrNotSent) {
		t.Errorf("Call() = %v, want ErrNotSent", err)
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, path string){
		"no socket yet": func(*testing.T, string) {},
		"stale socket": func(t *testing.T, path string) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(testkit.PrivateDir(t), "s.sock")
			before(t, path)
			type out struct {
				client *appserver.Client
				server appserver.Server
				err    error
			}
			done := make(chan out, 1)
			go func() {
				c, s, err := appserver.Connect(withTime(t), path, "test", "1", nil)
				done <- out{c, s, err}
			}()
			_ = os.Remove(path)
			conn := appservertest.Listen(t, path).Accept(appservertest.Answer{})
			conn.Initialize()
			got := <-done
			if got.err != nil {
				t.Fatalf("Connect() = %v", got.err)
			}
			got.client.Close()
			if got.server.Version() != "0.149.0" {
				t.Errorf("Version() = %q, want 0.149.0", got.server.Version())
			}
		})
	}
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(withTime(t))
	died := errors.New("the process died")
	cancel(died)
	_, _, err := appserver.Connect(ctx, filepath.Join(testkit.PrivateDir(t), "s.sock"), "test", "1", nil)
	if !errors.Is(err, died) {
		t.Errorf("Connect() = %v, want the context's cause", err)
	}
}

func TestConnectDoesNotTakeABrokenPeerForOneThatStarts(t *testing.T) {
	server, path := listen(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := appserver.Connect(withTime(t), path, "test", "1", nil)
		done <- err
	}()
	conn := server.Accept(appservertest.Answer{})
	conn.Refuse(conn.Expect("initialize"), -32600, "Already initialized")
	var refused *appserver.RPCError
	if err := <-done; !errors.As(err, &refused) {
		t.Errorf("Connect() = %v, want the refusal", err)
	}
}
