package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// What keepers and supervisors are given by their starter beside arguments.
const (
	starterEnv  = "MMO_STARTER"    // "<pid> <start token>" of the starter
	secretsFile = 3                // descriptor of the pipe with the credentials
	outcomeFile = 4                // descriptor of the pipe that tells an adopting keeper the outcome
	maxSecrets  = 1 << 20          // bytes of the credentials
	secretsWait = 10 * time.Second // for the whole of them, on either side
)

// startSelf starts this build as keeper or supervisor of the session, with the
// credentials in a pipe. outcome is the pipe for outcomeFile; nil: none.
func startSelf(cfg *KeeperConfig, outcome *os.File, mode ...string) (*process.Child, error) {
	raw, err := json.Marshal(cfg.Secrets)
	if err != nil {
		return nil, core.Errorf(core.KindRuntime, "passing the credentials: %w", err)
	}
	if len(raw) > maxSecrets {
		return nil, core.Errorf(core.KindValue, "the credentials are larger than %d bytes", maxSecrets)
	}
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "making the credentials' pipe: %w", err)
	}
	defer write.Close()
	spec := process.Spec{
		Path: cfg.Executable, Args: append([]string{"supervise", cfg.SessionID}, mode...),
		Env:        append(slices.Clone(cfg.Env), fmt.Sprintf("%s=%d %s", starterEnv, self.PID, self.StartToken)),
		Dir:        cfg.Folders.SessionDir(cfg.SessionID),
		StderrPath: filepath.Join(cfg.Folders.SessionDir(cfg.SessionID), "supervisor.log"),
		ExtraFiles: []*os.File{read},
	}
	if outcome != nil {
		spec.ExtraFiles = append(spec.ExtraFiles, outcome)
	}
	child, err := process.Start(spec)
	_ = read.Close() // its end is the child's alone: writing fails once the child is dead
	if err != nil {
		return nil, core.Errorf(core.KindOS, "starting `codex-mmo supervise`: %w", err)
	}
	if err = write.SetWriteDeadline(time.Now().Add(secretsWait)); err == nil {
		_, err = write.Write(raw)
	}
	if err != nil {
		return nil, errors.Join(core.Errorf(core.KindOS, "passing the credentials: %w", err), child.Kill())
	}
	return child, nil
}

// ReadSecrets reads the credentials that the starter wrote into the inherited
// pipe. They are never in argv, in the environment or on disk, and the memory
// that they come into can't be read by other processes.
func ReadSecrets() (map[string]string, error) {
	if err := process.HideMemory(); err != nil {
		return nil, err
	}
	f, err := inherited(secretsFile, "credentials")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(secretsWait)) // a regular file has no deadline and ends anyhow
	raw, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
	if err != nil || len(raw) > maxSecrets {
		return nil, noPipe("credentials")
	}
	var secrets map[string]string
	if err := json.Unmarshal(raw, &secrets); err != nil {
		return nil, core.Errorf(core.KindRuntime, "the credentials' pipe holds no JSON object")
	}
	return secrets, nil
}

// inherited opens a pipe that our starter passed, so that reading it can be
// given up.
func inherited(fd int, what string) (*os.File, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, noPipe(what)
	}
	return os.NewFile(uintptr(fd), what), nil
}

func noPipe(what string) error {
	return core.Errorf(core.KindRuntime, "reading the pipe with the %s failed", what).
		WithRemedy("this command is started by codex-mmo itself; use `codex-mmo status`")
}

// starter returns the identity of the process that started this one with
// startSelf, the zero one when it is gone or when somebody else did.
func starter(getenv func(string) string) process.Identity {
	number, token, _ := strings.Cut(getenv(starterEnv), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return process.Identity{}
	}
	id, err := process.Lookup(pid)
	if err != nil || id.StartToken != token {
		return process.Identity{}
	}
	return id
}

// crashed is the exit code of a supervisor that told no outcome.
const crashed = -1

// awaitAdopted waits for the end of the supervisor that started this keeper and
// returns its outcome, which it tells before it ends. One that crashes tells
// none: the pipe ends with it.
func awaitAdopted(ctx context.Context) (code int, err error) {
	pipe, err := inherited(outcomeFile, "outcome")
	if err != nil {
		return 0, err
	}
	defer pipe.Close()
	stop := context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var told [1]byte
	switch _, err := io.ReadFull(pipe, told[:]); {
	case err == nil:
		return int(told[0]), nil
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	// The next one must find the session's lock free.
	return crashed, awaitEnd(ctx, starter(os.Getenv))
}

// outcomeOf returns the outcome of a supervisor whose life ended with cause;
// other causes than these are crashes.
func outcomeOf(cause error) (outcome Outcome, ok bool) {
	switch {
	case errors.Is(cause, errEnded):
		return OutcomeEnded, true
	case errors.Is(cause, errDetach):
		return OutcomeDetached, true
	case errors.Is(cause, errTakenOver):
		return OutcomeTakenOver, true
	}
	return 0, false
}

// watchKeeper starts another keeper whenever ours has died, until we leave.
func (s *Supervisor) watchKeeper() {
	s.setKeeper(starter(s.cfg.Getenv))
	if awaitEnd(s.life, s.keeperIdentity()) != nil {
		return // it learns the outcome from our exit code
	}
	pause := keeperPauseMin
	for {
		s.log.Warn("the keeper is gone; another one is started")
		since := time.Now()
		if err := s.replaceKeeper(); err != nil {
			s.log.Error("the keeper can't be replaced yet", "err", err, "pause", pause)
		}
		if time.Since(since) > keeperWindow {
			pause = keeperPauseMin
		}
		if !wait(s.life, pause) {
			return
		}
		pause = min(2*pause, keeperPauseMax)
	}
}

// replaceKeeper starts a keeper and stays with it until it has ended or we
// leave; then it is told why.
func (s *Supervisor) replaceKeeper() error {
	read, write, err := os.Pipe()
	if err != nil {
		return core.Errorf(core.KindOS, "making the outcome's pipe: %w", err)
	}
	defer write.Close()
	child, err := startSelf(&KeeperConfig{
		Folders: s.cfg.Folders, SessionID: s.session, Executable: s.cachedSession().Binary.Path,
		Env: BaseEnv(s.cfg.Getenv), Secrets: s.cfg.Secrets,
	}, read, ArgAdopt)
	_ = read.Close() // the keeper has its own
	if err != nil {
		return err
	}
	s.setKeeper(child.Identity())
	s.hub.emit(followEvent("notice", "", "", "keeper lost; another one takes over"))
	select {
	case <-child.Done():
		return nil
	case <-s.life.Done():
	}
	if outcome, ok := outcomeOf(context.Cause(s.life)); ok {
		if _, err := write.Write([]byte{byte(outcome)}); err != nil {
			return core.Errorf(core.KindOS, "telling the keeper the outcome: %w", err)
		}
	}
	return nil
}

func (s *Supervisor) setKeeper(id process.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper = id
}

// keeperIdentity returns the keeper: the one that started us, or the last one
// that we started since. It may be gone, and is zero when we know of none.
func (s *Supervisor) keeperIdentity() process.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeper
}
