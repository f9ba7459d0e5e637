package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// parkedHandler parks waits until their context ends.
func parkedHandler(n int) (*controltest.Handler, chan struct{}, chan error) {
	entered, ended := make(chan struct{}, n), make(chan error, n)
	h := teamHandler()
	h.OnWait = func(ctx context.Context, _ control.Call, _ control.WaitRequest) (*control.WaitResponse, error) {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	h.OnCancel = func(_ context.Context, _ control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
		return &control.CancelResponse{Jobs: []control.JobView{{JobID: r.JobID}}}, nil
	}
	h.OnJobs = noJobs
	return h, entered, ended
}

// TestParkedWaitsDelayNobody parks twenty waits and then cancels a job, looks,
// and takes one wait back.
func TestParkedWaitsDelayNobody(t *testing.T) {
	h, entered, ended := parkedHandler(64)
	c := start(t, h)
	for i := range 20 {
		c.send(callLine(fmt.Sprint(i), "agents_wait", `{"job_ids":["j"]}`))
	}
	for range 20 {
		<-entered
	}
	began := time.Now()
	c.send(callLine("100", "agent_cancel", `{"job_id":"j"}`))
	if r := c.next(); string(r.ID) != "100" || r.tool(t).IsError {
		t.Errorf("answer = %+v, want that of the cancel", r)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the cancel took %v behind parked waits", took)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`) // a string: another request
	c.send(callLine("7", "agent_status", `{}`))
	if r := c.next(); r.Error == nil || r.Error.Code != -32600 {
		t.Errorf("answer = %+v, want that id 7 is in use still", r)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"x"}}`)
	select {
	case err := <-ended:
		if errors.Is(err, control.ErrDraining) {
			t.Errorf("the wait ended with %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the cancelled wait goes on")
	}
	c.send(callLine("101", "agent_status", `{}`))
	if r := c.next(); string(r.ID) != "101" {
		t.Errorf("answer = %+v, want no answer to the cancelled wait", r)
	}
}

func TestTooManyWaits(t *testing.T) {
	h, entered, _ := parkedHandler(64)
	c := start(t, h)
	for i := range 64 {
		c.send(callLine(fmt.Sprint(i), "agents_wait", `{"job_ids":["j"]}`))
	}
	for range 64 {
		<-entered
	}
	if r := c.call("agents_wait", `{"job_ids":["j"]}`).tool(t); !r.IsError || !strings.HasPrefix(r.Content[0].Text, "RuntimeError: 64 calls") {
		t.Errorf("wait number 65 = %+v, want a refusal", r)
	}
}

// TestEndAnswersParkedWaits ends the session in each way there is, under parked
// waits.
func TestEndAnswersParkedWaits(t *testing.T) {
	for _, how := range []string{"end of input", "context", "parent"} {
		t.Run(how, func(t *testing.T) {
			h, entered, _ := parkedHandler(4)
			path := controltest.SocketPath(t)
			controltest.Start(t, path, h)
			gone := make(chan struct{})
			c := connect(t, mcpserver.Config{Socket: path, Token: "tok", ParentGone: gone})
			c.handshake("codex-mcp-client")
			c.send(callLine("1", "agents_wait", `{"job_ids":["j"]}`), callLine("2", "agents_wait", `{"job_ids":["j"]}`))
			<-entered
			<-entered
			switch how {
			case "end of input":
				_ = c.in.Close()
			case "context":
				c.stop()
			case "parent":
				close(gone)
			}
			var ids []string
			for range 2 {
				r := c.next()
				ids = append(ids, string(r.ID))
				got := r.tool(t)
				if want := "UnavailableError: this MCP process is ending; nothing is lost; call again"; !got.IsError || got.Content[0].Text != want {
					t.Errorf("answer = %+v, want %q", got, want)
				}
			}
			slices.Sort(ids)
			if d := cmp.Diff([]string{"1", "2"}, ids); d != "" {
				t.Errorf("answered ids differ (-want +got):\n%s", d)
			}
			if err := <-c.ended; err != nil {
				t.Errorf("Serve = %v, want nil", err)
			}
			c.ended <- nil // for the clean-up
		})
	}
}

// TestManyClientsAtOnce runs several servers in one process, as mcp-go's own
// stdio loop can't, with calls from all of them mixed.
func TestManyClientsAtOnce(t *testing.T) {
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		return &control.ResultResponse{JobID: r.JobID}, nil
	}
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	var wg sync.WaitGroup
	for n := range 4 {
		c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
		c.handshake("codex-mcp-client")
		wg.Go(func() {
			want := map[string]string{}
			for i := range 25 {
				id, job := fmt.Sprint(i), fmt.Sprintf("j-%d-%d", n, i)
				want[id] = job
				c.send(callLine(id, "agent_result", `{"job_id":"`+job+`"}`))
				r := c.next()
				if !strings.Contains(string(r.Result), want[string(r.ID)]) {
					t.Errorf("answer %s = %s, want job %s", r.ID, r.Result, want[string(r.ID)])
				}
			}
		})
	}
	wg.Wait()
}

// TestClientThatDoesNotRead ends a session whose answers nobody takes.
func TestClientThatDoesNotRead(t *testing.T) {
	in, send := io.Pipe()
	unread, out := io.Pipe()
	defer unread.Close()
	defer send.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- mcpserver.Serve(ctx, mcpserver.Config{Socket: "/nowhere/s", In: in, Out: out})
	}()
	if _, err := io.WriteString(send, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the server waits for a client that does not read")
	}
}
