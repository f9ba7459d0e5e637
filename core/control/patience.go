package control

import (
	"context"
	"time"
)

// busyPause is how long to let a supervisor be that took a request and gave no
// answer, before it is asked again.
const busyPause = 20 * time.Millisecond

// maxBroken is how many times one call is sent without getting an answer: a
// request that brings its supervisor down must not do so for ever.
const maxBroken = 5

// patience is the waiting of one call for a supervisor to come (back).
type patience struct {
	path     string
	span     time.Duration
	deadline time.Time // for a supervisor to appear; zero before one was missed
	broken   int       // attempts that were sent and not answered
	watch    *watch    // nil before the first failed dial
}

func newPatience(path string, span time.Duration) *patience {
	return &patience{path: path, span: span}
}

// wait returns true when another attempt is worth it. After a failed dial it
// first waits for something to happen where the socket should be. After a
// connection that broke the time starts anew, so a call that is parked for long
// has all of it left whenever its supervisor dies.
//
// The watch begins before the attempt that relies on it: the first failed dial
// opens it and returns at once, so that a socket which appears between the two
// is found by the dial, and one which appears later by the watch.
func (p *patience) wait(ctx context.Context, became outcome) bool {
	if ctx.Err() != nil {
		return false
	}
	if p.deadline.IsZero() || became != notSent {
		p.deadline = time.Now().Add(p.span)
	}
	left := time.Until(p.deadline)
	if left <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if became != notSent {
		p.broken++
		return p.broken < maxBroken && pause(ctx, busyPause)
	}
	if p.watch == nil {
		p.watch = newWatch(p.path)
		return true
	}
	return p.watch.wait(ctx)
}

// pause returns true after d, false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *patience) close() {
	if p.watch != nil {
		p.watch.close()
	}
}
