//go:build !linux

package control

import (
	"context"
	"time"
)

// watchPause is the pace of looking again; only Linux has a watch here.
const watchPause = 100 * time.Millisecond

// watch is a pace of looking again.
type watch struct{}

func newWatch(string) *watch { return &watch{} }

// wait returns true after the pause, false when ctx ended first.
func (*watch) wait(ctx context.Context) bool {
	return pause(ctx, watchPause)
}

func (*watch) close() {}
