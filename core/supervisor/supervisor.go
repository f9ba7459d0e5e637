package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gofrs/flock"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Outcome tells the keeper what to do when a supervisor has ended.
type Outcome int

// The outcomes. They are also the supervisor's exit codes, so that the keeper
// needs no other channel; any other exit code is a crash.
const (
	OutcomeEnded     Outcome = 0  // nothing is left to supervise
	OutcomeLockHeld  Outcome = 10 // another supervisor has the session
	OutcomeDetached  Outcome = 11 // told to leave; the work goes on
	OutcomeTakenOver Outcome = 12 // a newer epoch writes the session
)

// Supervisor runs one session. Make it with Run.
type Supervisor struct {
	cfg     *Config
	log     *slog.Logger
	session string
	runID   string
	snap    *profile.Snapshot
	keys    *profile.Credentials // what the team's routes and tools need
	store   *store.Store
	epoch   uint64
	self    process.Identity
	hub     *hub
	gw      atomic.Pointer[gatewayLink] // nil until the gateway was opened, and where no route needs one
	server  *control.Server

	// life ends when the supervisor leaves the session (detach); agents and
	// loops hang on it. The cause says why.
	life context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	sess    *store.Session
	jobs    map[string]*store.Job       // job id -> last committed record
	agents  map[string]*agent           // agent run ref -> actor
	caps    map[string]store.Capability // hash -> token that is out
	runs    map[string]*store.AgentRun  // agent run ref -> record at our start
	ways    map[string]way              // agent id -> how its thread names its model
	changed chan struct{}               // closed and replaced at every published change

	ready      chan struct{} // closed once every agent run that is not over has an actor
	told       chan struct{} // closed once the last status was published to followers
	telling    sync.Once
	wg         sync.WaitGroup
	committing sync.Mutex // held from a transaction until its changes are published

	stopping atomic.Bool // a stop lets what is at work come to its end

	endMu sync.Mutex // held by the one end that is under way
	over  bool       // guarded by endMu: an end has succeeded
	repo  repoOnce

	lifecycle    refLocks      // of the verbs that change the session as a whole
	controlLocks refLocks      // of the controls of each agent
	spawning     refLocks      // of the spawns of each request key
	asked        chan struct{} // holds one while a call is not noted yet
	awake        chan struct{} // closed once the session is at work
	watching     sync.Once
	lost         []string // jobs that were found without their processes; set before ready is closed

	integrating sync.Mutex
	keeper      process.Identity // guarded by mu; zero: not known
	mesh        meshWatch
	undone      undelivered
}

var (
	errDetach    = errors.New("the supervisor was told to leave the session")
	errEnded     = errors.New("the session has ended")
	errTakenOver = errors.New("another supervisor took the session over")
)

// Run supervises the session until it has ended or ctx is cancelled, which
// detaches: hosts, engines and the gateway go on and the next supervisor
// adopts them. It returns an error only for what a new start may cure.
func Run(ctx context.Context, cfg *Config) (Outcome, error) {
	lock, err := takeLock(filepath.Join(cfg.Folders.SessionDir(cfg.SessionID), "supervisor.lock"))
	if err != nil {
		return 0, err
	}
	if lock == nil {
		return OutcomeLockHeld, nil
	}
	defer lock.Unlock()

	s, err := open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer s.store.Close()
	if s.cachedSession().Status.Terminal() {
		return OutcomeEnded, nil
	}
	return s.run(ctx)
}

// takeLock takes a lock file exclusively without waiting. It returns nil when
// another process holds it.
func takeLock(path string) (*flock.Flock, error) {
	if info, err := os.Lstat(filepath.Dir(path)); err == nil && !info.IsDir() {
		return nil, core.Errorf(core.KindOS, "lifecycle lock cannot traverse %s: it is not a folder", filepath.Dir(path)).
			WithRemedy("put the session's own folder back there and try again")
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, core.Errorf(core.KindOS, "lifecycle lock cannot traverse %s: it is not a regular file", path).
			WithRemedy("remove it and try again")
	}
	lock := flock.New(path, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "taking the lock %s: %w", path, err)
	}
	if !ok {
		return nil, nil
	}
	return lock, nil
}

// open takes the session over in the store and loads what is known of it.
func open(ctx context.Context, cfg *Config) (*Supervisor, error) {
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, filepath.Join(cfg.Folders.State, "state.db"), nil)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		cfg: cfg, log: cfg.Log.With("session", cfg.SessionID), session: cfg.SessionID, store: st, self: self,
		hub: newHub(cfg.now), jobs: map[string]*store.Job{}, agents: map[string]*agent{},
		caps: map[string]store.Capability{}, runs: map[string]*store.AgentRun{}, ways: map[string]way{}, changed: make(chan struct{}), ready: make(chan struct{}), told: make(chan struct{}),
		asked: make(chan struct{}, 1), awake: make(chan struct{}),
	}
	if err := s.load(ctx); err != nil {
		st.Close()
		return nil, err
	}
	return s, nil
}

func (s *Supervisor) load(ctx context.Context) error {
	err := s.store.View(ctx, func(tx *store.Tx) error {
		rec, err := tx.Session(s.session)
		if err != nil {
			return err
		}
		run, err := tx.RunOf(s.session)
		if err != nil {
			return err
		}
		jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Strict: true})
		if err != nil {
			return err
		}
		s.sess, s.runID = rec, run.RunID
		for _, j := range jobs {
			s.jobs[j.JobID] = j
		}
		return s.loadCapabilities(tx)
	})
	if err != nil || s.sess.Status.Terminal() {
		return err
	}
	if s.snap, err = profile.Load(s.cfg.Folders.State, s.sess.SnapshotHash); err != nil {
		return err
	}
	s.loadCredentials()
	s.epoch, err = s.store.TakeOver(ctx, s.session)
	return err
}

// run serves and drives the session until its end.
func (s *Supervisor) run(ctx context.Context) (Outcome, error) {
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { s.end(errDetach) })
	defer stop()

	if err := folders.MakeDir(s.cfg.Folders.RuntimeDir(s.session)); err != nil {
		return 0, err
	}
	listener, err := control.Listen(s.cfg.Folders.ControlSocket(s.session))
	if err != nil {
		return 0, err
	}
	s.server = control.NewServer(listener, s, &control.ServerOptions{Build: s.cfg.Build})
	s.wg.Go(func() {
		if err := s.server.Serve(); err != nil && s.life.Err() == nil {
			s.fatal(fmt.Errorf("serving the control API: %w", err))
		}
	})
	s.wg.Go(s.watchKeeper)
	s.wg.Go(func() {
		if err := s.recover(s.life); err != nil && s.life.Err() == nil {
			s.fatal(err)
		}
	})

	<-s.life.Done()
	return s.leave()
}

// leave ends what belongs to this process alone and names the outcome.
func (s *Supervisor) leave() (Outcome, error) {
	cause := context.Cause(s.life)
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.log.Warn("the control API did not end in time", "err", err)
	}
	if g := s.gw.Load(); g != nil {
		g.close()
	}
	s.wg.Wait()
	if s.cachedSession().Status.Terminal() {
		_ = os.Remove(s.cfg.Folders.RuntimeDir(s.session)) // empty by now, or not ours to empty
	}
	if o, ok := outcomeOf(cause); ok {
		return o, nil
	}
	return 0, cause
}

// fatal leaves the session after an error that a fresh start may cure: the
// keeper starts the next supervisor, which recovers from the records.
func (s *Supervisor) fatal(err error) {
	if errors.Is(err, store.ErrTakenOver) {
		err = errTakenOver
	}
	s.log.Error("the supervisor gives up and leaves recovery to the next one", "err", err)
	s.end(err)
}

// snapshotAgent returns a role of the session's team.
func (s *Supervisor) snapshotAgent(id string) (profile.Agent, error) {
	a, ok := s.snap.Agents[id]
	if !ok {
		return profile.Agent{}, core.Errorf(core.KindValue, "profile %s has no agent %q", s.snap.ProfileID, id)
	}
	return a, nil
}

// loadCapabilities reads the tokens that are out and the agent runs that have
// them.
func (s *Supervisor) loadCapabilities(tx *store.Tx) error {
	runs, err := tx.AgentRuns(s.session)
	if err != nil {
		return err
	}
	for _, rec := range runs {
		s.runs[rec.AgentRef] = rec
		list, err := tx.Capabilities(rec.AgentRef)
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.RevokedAt == nil {
				s.caps[c.TokenSHA256] = *c
			}
		}
	}
	return nil
}

// mintToken makes a token for an agent run and records its hash; older tokens
// of the same kind stop working in the same transaction.
func (s *Supervisor) mintToken(ctx context.Context, ref, kind string, generation uint64) (token, hash string, err error) {
	token, hash = access.NewToken(s.cfg.random())
	rec := store.Capability{
		TokenSHA256: hash, SessionID: s.session, AgentRef: ref, Kind: kind,
		Generation: generation, CreatedAt: s.cfg.now().UTC(),
	}
	if err := s.replaceTokens(ctx, ref, []string{kind}, &rec); err != nil {
		return "", "", err
	}
	return token, hash, nil
}

// revokeTokens drops the tokens of an agent run that are of these kinds.
func (s *Supervisor) revokeTokens(ctx context.Context, ref string, kinds ...string) error {
	return s.replaceTokens(ctx, ref, kinds, nil)
}

// replaceTokens revokes an agent run's tokens of the given kinds and records
// the next one, which may be nil.
func (s *Supervisor) replaceTokens(ctx context.Context, ref string, kinds []string, next *store.Capability) error {
	now := s.cfg.now().UTC()
	err := s.commit(ctx, func(tx *store.Tx, _ *change) error {
		list, err := tx.Capabilities(ref)
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.RevokedAt != nil || !slices.Contains(kinds, c.Kind) {
				continue
			}
			c.RevokedAt = &now
			if err := tx.PutCapability(c); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		return tx.PutCapability(next)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, c := range s.caps {
		if c.AgentRef == ref && slices.Contains(kinds, c.Kind) {
			delete(s.caps, h)
		}
	}
	if next != nil {
		s.caps[next.TokenSHA256] = *next
	}
	return nil
}

// Kinds of capability.
const (
	capCaller  = "caller"  // proves who calls the control API
	capGateway = "gateway" // admits model requests at the gateway
)
