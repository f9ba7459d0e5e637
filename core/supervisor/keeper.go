package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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
	ArgSupervisor = "--supervisor"   // be the supervisor, child of a keeper
	ArgAdopt      = "--adopt"        // be a keeper of the running supervisor that started us
	ArgGiveUp     = "--give-up"      // be a supervisor that only records that the keeper gave up
	secretsFile   = uintptr(3)       // descriptor of the pipe with the credentials
	maxSecrets    = 1 << 20          // bytes of that pipe
	secretsWait   = 10 * time.Second // for the whole of it
)

// KeeperConfig is what a keeper is started with.
type KeeperConfig struct {
	Folders    folders.Folders
	SessionID  string
	Executable string // of the session's kept build
	Env        []string
	Secrets    map[string]string
	Adopt      *process.Identity // a supervisor that runs already; nil: start one
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
	if cfg.Adopt != nil {
		if err := awaitEnd(ctx, *cfg.Adopt); err != nil {
			return err
		}
	}
	var crashes []time.Time
	pause := keeperPauseMin
	for {
		started := time.Now()
		code, err := superviseOnce(ctx, cfg, ArgSupervisor)
		switch {
		case err != nil:
			return err
		case ended(code):
			return nil
		}
		cfg.Log.Warn("the supervisor crashed and is started again", "session", cfg.SessionID, "exit", code)
		now := time.Now()
		if now.Sub(started) > keeperWindow {
			crashes, pause = nil, keeperPauseMin
		}
		if crashes = recent(append(crashes, now), now); len(crashes) >= keeperCrashes {
			_, err := superviseOnce(ctx, cfg, ArgGiveUp)
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, keeperPauseMax)
	}
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

func recent(times []time.Time, now time.Time) []time.Time {
	var kept []time.Time
	for _, t := range times {
		if now.Sub(t) < keeperWindow {
			kept = append(kept, t)
		}
	}
	return kept
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
	child, err := startSelf(cfg, mode)
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

// startSelf starts this build as keeper or supervisor of the session, with the
// credentials in a pipe.
func startSelf(cfg *KeeperConfig, mode ...string) (*process.Child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "making the credentials' pipe: %w", err)
	}
	defer read.Close()
	defer write.Close()
	raw, err := json.Marshal(cfg.Secrets)
	if err != nil {
		return nil, core.Errorf(core.KindRuntime, "passing the credentials: %w", err)
	}
	if len(raw) > maxSecrets {
		return nil, core.Errorf(core.KindValue, "the credentials are larger than %d bytes", maxSecrets)
	}
	child, err := process.Start(process.Spec{
		Path: cfg.Executable, Args: append([]string{"supervise", cfg.SessionID}, mode...), Env: cfg.Env,
		Dir:        cfg.Folders.SessionDir(cfg.SessionID),
		StderrPath: filepath.Join(cfg.Folders.SessionDir(cfg.SessionID), "supervisor.log"),
		ExtraFiles: []*os.File{read},
	})
	if err != nil {
		return nil, core.Errorf(core.KindOS, "starting `codex-mmo supervise`: %w", err)
	}
	if _, err := write.Write(raw); err != nil {
		return nil, errors.Join(core.Errorf(core.KindOS, "passing the credentials: %w", err), child.Kill())
	}
	return child, nil
}

// ReadSecrets reads the credentials that the starter wrote into the inherited
// pipe. They are never in argv, in the environment or on disk.
func ReadSecrets() (map[string]string, error) {
	f := os.NewFile(secretsFile, "credentials")
	if f == nil {
		return nil, core.Errorf(core.KindRuntime, "no credentials' pipe").WithRemedy("this command is started by codex-mmo itself; use `codex-mmo status`")
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(secretsWait)) // a regular file has no deadline and ends anyhow
	raw, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
	if err != nil || len(raw) > maxSecrets {
		return nil, core.Errorf(core.KindRuntime, "reading the credentials' pipe failed").WithRemedy("this command is started by codex-mmo itself; use `codex-mmo status`")
	}
	var secrets map[string]string
	if err := json.Unmarshal(raw, &secrets); err != nil {
		return nil, core.Errorf(core.KindRuntime, "the credentials' pipe holds no JSON object")
	}
	return secrets, nil
}

// StartKeeper starts the keeper of a session, detached from its starter. It
// must be called from outside of any agent only: the keeper's children belong
// to nobody's sandbox.
func StartKeeper(cfg *KeeperConfig) error {
	_, err := startSelf(cfg)
	return err
}

// watchKeeper starts another keeper when ours dies.
func (s *Supervisor) watchKeeper() {
	parent, err := process.Parent(s.self.PID)
	if err != nil {
		return
	}
	id, err := process.Lookup(parent)
	if err == nil && parent > 1 {
		err = awaitEnd(s.life, id)
	}
	if err != nil || s.life.Err() != nil {
		return
	}
	s.log.Warn("the keeper is gone; another one is started")
	binary := s.cachedSession().Binary
	cfg := &KeeperConfig{
		Folders: s.cfg.Folders, SessionID: s.session, Executable: binary.Path,
		Env: BaseEnv(s.cfg.Getenv), Secrets: s.cfg.Secrets,
	}
	child, err := startSelf(cfg, ArgAdopt)
	if err != nil {
		s.log.Error("the keeper can't be replaced", "err", err)
		return
	}
	s.mu.Lock()
	s.keeper = child.Identity()
	s.mu.Unlock()
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
