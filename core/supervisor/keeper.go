package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// How a keeper restarts a supervisor that crashed.
const (
	keeperPauseMin = 50 * time.Millisecond
	keeperPauseMax = 5 * time.Second
	keeperCrashes  = 10              // within keeperWindow: the session is suspended
	keeperWindow   = 2 * time.Minute //
)

// Names of the arguments that tell keeper and supervisor apart on the command
// line of `codex-mmo supervise SESSION`.
const (
	ArgSupervisor = "--supervisor" // be the supervisor, child of a keeper
	ArgAdopt      = "--adopt"      // be a keeper of the running supervisor that started us
	ArgGiveUp     = "--give-up"    // be a supervisor that only records that the keeper gave up
)

// KeeperConfig is what a keeper is started with.
type KeeperConfig struct {
	Folders    folders.Folders
	SessionID  string
	Executable string // of the session's kept build
	Env        []string
	Secrets    map[string]string
	Adopt      bool // the supervisor that started this process runs already
	Log        *slog.Logger
}

// Keep starts the session's supervisor and starts it again whenever it
// crashes. It has no store and no socket, so that nothing but its own death
// can keep it from that. It returns when nothing is left to supervise.
func Keep(ctx context.Context, cfg *KeeperConfig) error {
	lock, err := takeLock(filepath.Join(cfg.Folders.SessionDir(cfg.SessionID), "keeper.lock"))
	if err != nil {
		return err
	}
	if lock == nil {
		return nil // another keeper keeps it
	}
	defer lock.Unlock()
	if cfg.Adopt {
		code, err := awaitAdopted(ctx)
		if err != nil || ended(code) {
			return err
		}
	}
	var past crashes
	for {
		started := time.Now()
		code, err := superviseOnce(ctx, cfg, ArgSupervisor)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			cfg.Log.Warn("the supervisor can't be started; it is tried again", "session", cfg.SessionID, "err", err)
		case ended(code):
			return nil
		default:
			cfg.Log.Warn("the supervisor crashed and is started again", "session", cfg.SessionID, "exit", code)
		}
		pause, spent := past.add(started, time.Now())
		if spent {
			return giveUp(ctx, cfg)
		}
		if !wait(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// giveUp lets a last supervisor record that the session is left.
func giveUp(ctx context.Context, cfg *KeeperConfig) error {
	code, err := superviseOnce(ctx, cfg, ArgGiveUp)
	if err == nil && code != 0 {
		err = core.Errorf(core.KindRuntime, "session %s could not be suspended: exit code %d", cfg.SessionID, code).
			WithRemedy("see supervisor.log in the session's folder, then run `codex-mmo status %s`", cfg.SessionID)
	}
	return err
}

// ended reports whether a supervisor's exit code says that its keeper has
// nothing more to do.
func ended(code int) bool {
	switch Outcome(code) {
	case OutcomeEnded, OutcomeLockHeld, OutcomeDetached, OutcomeTakenOver:
		return true
	}
	return false
}

// crashes is what a keeper knows of failed supervisors. The zero value knows of
// none.
type crashes struct {
	recent []time.Time // within keeperWindow
	pause  time.Duration
}

// add notes the end of a supervisor that crashed or could not be started, and
// returns how long to wait before the next, or that there shall be no next.
func (c *crashes) add(started, now time.Time) (pause time.Duration, spent bool) {
	if now.Sub(started) > keeperWindow {
		*c = crashes{}
	}
	c.recent = append(slices.DeleteFunc(c.recent, func(t time.Time) bool { return now.Sub(t) >= keeperWindow }), now)
	if len(c.recent) >= keeperCrashes {
		return 0, true
	}
	c.pause = min(max(2*c.pause, keeperPauseMin), keeperPauseMax)
	return c.pause, false
}

// awaitEnd waits for the end of a process that is not our child.
func awaitEnd(ctx context.Context, id process.Identity) error {
	handle, err := process.Open(id)
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer handle.Close()
	select {
	case <-handle.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// superviseOnce runs one supervisor to its end and returns its exit code.
func superviseOnce(ctx context.Context, cfg *KeeperConfig, mode string) (int, error) {
	child, err := startSelf(cfg, nil, mode)
	if err != nil {
		return 0, err
	}
	select {
	case <-child.Done():
		return child.State().ExitCode(), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx) // the supervisor goes on; it starts another keeper
	}
}

// StartKeeper starts the keeper of a session, detached from its starter. It
// must be called from outside of any agent only: the keeper's children belong
// to nobody's sandbox.
func StartKeeper(cfg *KeeperConfig) error {
	_, err := startSelf(cfg, nil)
	return err
}

// GiveUp records that the session's supervisor crashed too often.
func GiveUp(ctx context.Context, cfg *Config) error {
	s, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.store.Close()
	if s.cachedSession().Status.Terminal() {
		return nil
	}
	s.life, s.end = context.WithCancelCause(ctx)
	return s.abandon(ctx, core.Errorf(core.KindRuntime, "the supervisor crashed %d times in %s", keeperCrashes, keeperWindow).
		WithRemedy("see supervisor.log in the session's folder"))
}
