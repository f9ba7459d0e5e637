package process

import "context"

// BecomeSubreaper does nothing: macOS gives every orphan to launchd. Retire
// finds descendants there by session, process group and mark alone.
func BecomeSubreaper() error { return nil }

// ReapOrphans waits until ctx is done: no orphan ever comes to this process.
func ReapOrphans(ctx context.Context) { <-ctx.Done() }
