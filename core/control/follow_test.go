package control_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
)

func TestFollow(t *testing.T) {
	ctx := bounded(t)
	step := make(chan struct{})
	c := start(t, &controltest.Handler{
		OnFollow: func(_ context.Context, _ control.Call, r control.FollowRequest, emit func(control.FollowEvent) error) error {
			for i := uint64(1); i <= 3; i++ {
				if err := emit(control.FollowEvent{Seq: i, Text: "line\nbreak"}); err != nil {
					return err
				}
				<-step // the client has read it before the next is made: every event is flushed
			}
			return core.Errorf(core.KindRuntime, "the end")
		},
	}, nil)
	var seqs []uint64
	err := c.Follow(ctx, control.Meta{}, control.FollowRequest{}, func(e control.FollowEvent) error {
		seqs = append(seqs, e.Seq)
		step <- struct{}{}
		return nil
	})
	if d := cmp.Diff([]uint64{1, 2, 3}, seqs); d != "" {
		t.Errorf("events differ (-want +got):\n%s", d)
	}
	if core.KindOf(err) != core.KindRuntime || err.Error() != "the end" {
		t.Errorf("Follow = %v, want the handler's error", err)
	}
}

func TestFollowEnds(t *testing.T) {
	path := controltest.SocketPath(t)
	var ending atomic.Value
	s := controltest.Start(t, path, &controltest.Handler{
		OnFollow: func(ctx context.Context, _ control.Call, _ control.FollowRequest, emit func(control.FollowEvent) error) error {
			if err := emit(control.FollowEvent{Seq: 1}); err != nil {
				return err
			}
			<-ctx.Done()
			ending.Store(context.Cause(ctx))
			return ctx.Err()
		},
	})
	c := control.Dial(path, nil)
	stop := errors.New("enough")
	if err := c.Follow(bounded(t), control.Meta{}, control.FollowRequest{}, func(control.FollowEvent) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Follow = %v, want the reader's own error", err)
	}
	err := c.Follow(bounded(t), control.Meta{}, control.FollowRequest{}, func(control.FollowEvent) error {
		go func() { _ = s.Shutdown(context.Background()) }()
		return nil
	})
	if core.KindOf(err) != core.KindUnavailable {
		t.Errorf("Follow = %v, want an UnavailableError at the shutdown", err)
	}
	if !errors.Is(ending.Load().(error), control.ErrDraining) {
		t.Errorf("the stream's cause = %v, want %v", ending.Load(), control.ErrDraining)
	}
}
