package control_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
)

func TestBadMetaNeverLeaves(t *testing.T) {
	c := control.Dial("/nowhere/s", nil)
	for _, id := range []string{"a b", "a\r\nX: y", "é", strings.Repeat("x", 201)} {
		_, err := c.Jobs(bounded(t), control.Meta{CallID: id}, control.JobsRequest{})
		if core.KindOf(err) != core.KindValue {
			t.Errorf("Jobs with call id %.20q = %v, want a ValueError", id, err)
		}
	}
}

// TestLeavingEndsTheWait has a client leave a wait: its context ends.
func TestLeavingEndsTheWait(t *testing.T) {
	entered := make(chan struct{})
	waitEnded := make(chan error, 1)
	c := start(t, &controltest.Handler{
		OnWait: func(ctx context.Context, _ control.Call, _ control.WaitRequest) (*control.WaitResponse, error) {
			close(entered)
			<-ctx.Done()
			waitEnded <- context.Cause(ctx)
			return nil, ctx.Err()
		},
	}, nil)
	ctx, leave := context.WithCancel(bounded(t))
	returned := make(chan error, 1)
	go func() {
		_, err := c.Wait(ctx, control.Meta{}, control.WaitRequest{JobIDs: []string{"j"}, TimeoutSeconds: 60})
		returned <- err
	}()
	<-entered
	leave()
	if err := <-waitEnded; errors.Is(err, control.ErrDraining) {
		t.Errorf("the wait ended with %v, want another cause", err)
	}
	if err := <-returned; core.KindOf(err) != core.KindUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want an UnavailableError about the context", err)
	}
}

// slow is a handler method that says when it was entered, waits for its release
// or the end of its context, and tells what became of that.
func slow[Req, Resp any](entered chan<- string, release <-chan struct{}, ended chan<- error) func(context.Context, control.Call, Req) (*Resp, error) {
	return func(ctx context.Context, call control.Call, _ Req) (*Resp, error) {
		entered <- call.Key()
		select {
		case <-release:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return new(Resp), nil
	}
}

// TestLeavingUndoesNothing has a client leave in the middle of each call that
// changes something: the client is told that it does not know, and the call runs
// on.
func TestLeavingUndoesNothing(t *testing.T) {
	entered, release, ended := make(chan string, 1), make(chan struct{}, 1), make(chan error, 1)
	c := start(t, &controltest.Handler{
		OnSpawn:     slow[control.SpawnRequest, control.SpawnResponse](entered, release, ended),
		OnCancel:    slow[control.CancelRequest, control.CancelResponse](entered, release, ended),
		OnAccept:    slow[control.DispositionRequest, control.DispositionResponse](entered, release, ended),
		OnReject:    slow[control.DispositionRequest, control.DispositionResponse](entered, release, ended),
		OnIntegrate: slow[control.IntegrateRequest, control.IntegrateResponse](entered, release, ended),
		OnStop:      slow[control.StopRequest, control.StopResponse](entered, release, ended),
		OnHello: func(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
			return &control.HelloResponse{}, nil
		},
	}, nil)
	meta := control.Meta{RequestKey: "k"}
	for name, do := range map[string]func(context.Context) error{
		"spawn":  func(ctx context.Context) error { _, err := c.Spawn(ctx, meta, control.SpawnRequest{}); return err },
		"cancel": func(ctx context.Context) error { _, err := c.Cancel(ctx, meta, control.CancelRequest{}); return err },
		"accept": func(ctx context.Context) error {
			_, err := c.Accept(ctx, meta, control.DispositionRequest{})
			return err
		},
		"reject": func(ctx context.Context) error {
			_, err := c.Reject(ctx, meta, control.DispositionRequest{})
			return err
		},
		"integrate": func(ctx context.Context) error {
			_, err := c.Integrate(ctx, meta, control.IntegrateRequest{})
			return err
		},
		"stop": func(ctx context.Context) error { _, err := c.Stop(ctx, meta, control.StopRequest{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(bounded(t))
			returned := make(chan error, 1)
			go func() { returned <- do(ctx) }()
			if key := <-entered; key != "key/k" {
				t.Errorf("the call came with key %q, want key/k", key)
			}
			leave()
			if err := <-returned; core.KindOf(err) != core.KindDeliveryUnknown {
				t.Errorf("the call = %v, want ControlDeliveryUnknown", err)
			}
			if _, err := c.Hello(bounded(t)); err != nil { // the server has had time to see the client leave
				t.Fatal(err)
			}
			release <- struct{}{}
			if err := <-ended; err != nil {
				t.Errorf("the call's context ended with its client: %v", err)
			}
		})
	}
}

// TestWaitGoesOnAtTheSuccessor shuts a supervisor down under a parked wait and
// starts another: the client's call returns what that one says, and asks it for
// no more than what is left of the timeout.
func TestWaitGoesOnAtTheSuccessor(t *testing.T) {
	path := controltest.SocketPath(t)
	entered := make(chan struct{})
	first := controltest.Start(t, path, &controltest.Handler{
		OnWait: func(ctx context.Context, _ control.Call, _ control.WaitRequest) (*control.WaitResponse, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	c := control.Dial(path, &control.ClientOptions{Retry: 20 * time.Second})
	type answer struct {
		r   *control.WaitResponse
		err error
	}
	returned := make(chan answer, 1)
	go func() {
		r, err := c.Wait(bounded(t), control.Meta{}, control.WaitRequest{TimeoutSeconds: 600})
		returned <- answer{r, err}
	}()
	<-entered
	if err := first.Shutdown(bounded(t)); err != nil {
		t.Fatal(err)
	}
	asked := make(chan float64, 1)
	controltest.Start(t, path, &controltest.Handler{
		OnWait: func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
			asked <- r.TimeoutSeconds
			return &control.WaitResponse{TimedOutWaiting: true}, nil
		},
	})
	got := <-returned
	if got.err != nil || !got.r.TimedOutWaiting {
		t.Fatalf("Wait = %+v, %v, want the successor's answer", got.r, got.err)
	}
	if left := <-asked; left >= 600 || left < 570 {
		t.Errorf("the successor was asked for %v s, want what was left of 600", left)
	}
}

// breaker is a listener whose connections break after the request was read.
func breaker(t *testing.T, path string, times int32) *atomic.Int32 {
	t.Helper()
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 64<<10))
			last := requests.Add(1) == times
			if last {
				_ = l.Close()
			}
			_ = conn.Close() // after all else, because the client goes on at this
			if last {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return &requests
}

// TestRepeats pins which calls are sent again after a connection that broke
// without an answer.
func TestRepeats(t *testing.T) {
	key := control.Meta{RequestKey: "k"}
	for _, tc := range []struct {
		name              string
		do                func(context.Context, *control.Client) error
		repeated, changes bool
	}{
		{"jobs", func(ctx context.Context, c *control.Client) error {
			_, err := c.Jobs(ctx, control.Meta{}, control.JobsRequest{})
			return err
		}, true, false},
		{"wait", func(ctx context.Context, c *control.Client) error {
			_, err := c.Wait(ctx, control.Meta{}, control.WaitRequest{})
			return err
		}, true, false},
		{"spawn with a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Spawn(ctx, key, control.SpawnRequest{})
			return err
		}, true, true},
		{"spawn of a call", func(ctx context.Context, c *control.Client) error {
			_, err := c.Spawn(ctx, control.Meta{ThreadID: "a", TurnID: "b", CallID: "c"}, control.SpawnRequest{})
			return err
		}, true, true},
		{"spawn without a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Spawn(ctx, control.Meta{ThreadID: "a", CallID: "c"}, control.SpawnRequest{})
			return err
		}, false, true},
		{"cancel without a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Cancel(ctx, control.Meta{}, control.CancelRequest{})
			return err
		}, false, true},
		{"accept with a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Accept(ctx, key, control.DispositionRequest{})
			return err
		}, true, true},
		{"accept without a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Accept(ctx, control.Meta{}, control.DispositionRequest{})
			return err
		}, false, true},
		{"reject with a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Reject(ctx, key, control.DispositionRequest{})
			return err
		}, true, true},
		{"reject without a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Reject(ctx, control.Meta{}, control.DispositionRequest{})
			return err
		}, false, true},
		{"integrate with a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Integrate(ctx, key, control.IntegrateRequest{})
			return err
		}, true, true},
		{"integrate without a key", func(ctx context.Context, c *control.Client) error {
			_, err := c.Integrate(ctx, control.Meta{}, control.IntegrateRequest{})
			return err
		}, false, true},
		{"stop", func(ctx context.Context, c *control.Client) error {
			_, err := c.Stop(ctx, key, control.StopRequest{})
			return err
		}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := controltest.SocketPath(t)
			requests := breaker(t, path, 2)
			c := control.Dial(path, &control.ClientOptions{Retry: 300 * time.Millisecond})
			err := tc.do(bounded(t), c)
			sent := int32(1)
			if tc.repeated {
				sent = 2 // the third time there is nobody any more
			}
			kind := core.KindUnavailable
			if tc.changes {
				kind = core.KindDeliveryUnknown
			}
			if requests.Load() != sent || core.KindOf(err) != kind {
				t.Errorf("sent %d times with %v, want %d times and %s", requests.Load(), err, sent, kind)
			}
		})
	}
}

// TestPoison pins that a request which never gets an answer is not sent for
// ever.
func TestPoison(t *testing.T) {
	path := controltest.SocketPath(t)
	requests := breaker(t, path, 100)
	c := control.Dial(path, &control.ClientOptions{Retry: 20 * time.Second})
	_, err := c.Jobs(bounded(t), control.Meta{}, control.JobsRequest{})
	if !errors.Is(err, control.ErrUnreachable) || requests.Load() != 5 {
		t.Errorf("Jobs = %v after %d attempts, want ErrUnreachable after 5", err, requests.Load())
	}
}

func TestNobodyThere(t *testing.T) {
	path := controltest.SocketPath(t)
	for _, retry := range []time.Duration{0, 50 * time.Millisecond} {
		_, err := control.Dial(path, &control.ClientOptions{Retry: retry}).Hello(bounded(t))
		if !errors.Is(err, control.ErrUnreachable) || core.KindOf(err) != core.KindUnavailable {
			t.Errorf("Hello with retry %v = %v, want ErrUnreachable", retry, err)
		}
	}
}

// TestSupervisorAppears starts the server only after the client has begun to
// wait, in a folder that does not exist yet either.
func TestSupervisorAppears(t *testing.T) {
	for _, name := range []string{"socket", "folder", "two folders"} {
		t.Run(name, func(t *testing.T) {
			path := controltest.SocketPath(t)
			dir := strings.TrimSuffix(path, "/s")
			switch name {
			case "folder":
				dir += "/sub"
			case "two folders":
				dir += "/sub/sub"
			}
			path = dir + "/s"
			c := control.Dial(path, &control.ClientOptions{Retry: 20 * time.Second})
			returned := make(chan error, 1)
			go func() {
				_, err := c.Hello(bounded(t))
				returned <- err
			}()
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			controltest.Start(t, path, &controltest.Handler{
				OnHello: func(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
					return &control.HelloResponse{PID: 1}, nil
				},
			})
			if err := <-returned; err != nil {
				t.Errorf("Hello = %v, want the answer of the server that appeared", err)
			}
		})
	}
}
