package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Bounds of the steps of an agent's life.
const (
	minOpen      = 120 * time.Second // handshake, MCP start-up and thread, where no tool server needs more
	rpcTimeout   = 30 * time.Second  // one command to a host
	controlExtra = 30 * time.Second  // by which a call outlasts what the host may take for it
	stopGrace    = 2 * time.Second   // after each SIGTERM; Codex ends in 0.3-0.6 s when idle
	leaveTimeout = 5 * time.Second   // of the control API's end
)

// agent is the actor that drives one agent run: the root or a job. Its
// goroutine alone changes rec and talks to the host; others send it functions
// through inbox, or end it with kill.
type agent struct {
	sup   *Supervisor
	log   *slog.Logger
	ref   string
	jobID string // empty: the root
	role  profile.Agent

	killCtx context.Context // ends when the agent is to be retired
	killFn  context.CancelCauseFunc

	inbox    chan func(context.Context)
	launched chan struct{} // closed when the engine exists and its handle is durable, or failed to
	brought  chan struct{} // closed when its processes came up, or it was given up
	ended    chan struct{} // closed when the actor has ended

	mu        sync.Mutex
	recorded  store.AgentRun // copy of rec for other goroutines
	launchErr error

	// Owned by the actor's goroutine.
	rec      store.AgentRun
	plugin   *pluginhost.Plugin
	host     hostpb.HostClient
	events   chan *hostpb.Event
	stream   context.CancelFunc // ends the running event stream
	trail    *trail             // events.jsonl
	lastText map[string]string  // turn id -> text of its last agent message
	done     bool
	unknown  *time.Timer // runs while an input's delivery is not known; nil otherwise
	free     int         // recoveries that somebody asked for: they are not counted
	// compacted tells who waits for it, once, what became of a compaction.
	compacted chan error
	goalWaits bool   // the goal was paused for a compaction, and goes on after it
	activated string // turn in which the goal was activated by us
}

func (s *Supervisor) newAgent(rec *store.AgentRun, role profile.Agent) *agent {
	a := s.makeAgent(rec, role)
	s.mu.Lock()
	s.agents[a.ref] = a
	s.mu.Unlock()
	return a
}

// claim is newAgent for a job that was admitted and is to be launched. It
// returns nil when the job is to end already: whoever ends it has seen that it
// has no actor, or will find this one.
func (s *Supervisor) claim(rec *store.AgentRun, role profile.Agent) *agent {
	a := s.makeAgent(rec, role)
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[rec.JobID]; j == nil || j.Status != core.JobQueued {
		a.killFn(nil)
		return nil
	}
	s.agents[a.ref] = a
	return a
}

func (s *Supervisor) makeAgent(rec *store.AgentRun, role profile.Agent) *agent {
	a := &agent{
		sup: s, log: s.log.With("agent", rec.Agent, "job", rec.JobID), ref: rec.AgentRef, jobID: rec.JobID, role: role,
		inbox: make(chan func(context.Context)), launched: make(chan struct{}), brought: make(chan struct{}), ended: make(chan struct{}),
		rec: *rec, recorded: *rec, lastText: map[string]string{},
	}
	a.killCtx, a.killFn = context.WithCancelCause(s.life)
	return a
}

// start runs the actor. bring is how its processes come up: launch for a new
// agent, readopt after a supervisor's start.
func (a *agent) start(bring func(*agent, context.Context) error) {
	a.sup.wg.Go(func() {
		defer close(a.ended)
		a.run(bring)
		a.signalLaunched(errors.New("the agent ended before it was launched"))
	})
}

func (a *agent) run(bring func(*agent, context.Context) error) {
	defer a.disconnect()
	if err := a.openTrail(); err != nil {
		a.giveUp(fmt.Errorf("opening the event log: %w", err))
		return
	}
	defer a.trail.close()
	if err := bring(a, a.killCtx); err != nil {
		a.broken(err)
	}
	close(a.brought)
	a.loop()
}

// loop drives the agent until it is done, killed, or the supervisor leaves.
func (a *agent) loop() {
	for !a.done {
		var lost <-chan struct{}
		if a.plugin != nil {
			lost = a.plugin.Done()
		}
		select {
		case <-a.killCtx.Done():
			var reason *killReason
			if errors.As(context.Cause(a.killCtx), &reason) {
				a.retireKilled(reason)
			}
			return // detach: everything goes on without us
		case <-lost:
			a.step(a.hostLost)
		case e, ok := <-a.events:
			if !ok {
				a.subscribe()
				continue
			}
			a.step(func(ctx context.Context) error { return a.handle(ctx, e) })
		case f := <-a.inbox:
			f(a.killCtx)
		case <-a.unknownDue():
			a.step(func(ctx context.Context) error { return a.readState(ctx, engineSame) })
		}
	}
}

// unknownDue fires when it is time to look again for an input whose delivery is
// not known.
func (a *agent) unknownDue() <-chan time.Time {
	if a.unknown == nil {
		return nil
	}
	return a.unknown.C
}

// step runs one move of the actor; an error that is not the actor's own end
// goes to broken.
func (a *agent) step(move func(context.Context) error) {
	if err := move(a.killCtx); err != nil {
		a.broken(err)
	}
}

// broken decides what an error means: the end of the supervisor's or the
// agent's life is handled by loop; a store that refuses takes the supervisor
// down; everything else is the agent's failure.
func (a *agent) broken(err error) {
	if a.killCtx.Err() != nil {
		return
	}
	if a.plugin != nil && chanClosed(a.plugin.Done()) {
		return // loop sees the lost host next
	}
	if errors.As(err, new(hostCallError)) && a.plugin != nil {
		a.unanswered(err)
		return
	}
	if errors.As(err, new(recordError)) {
		a.sup.fatal(err)
		return
	}
	a.giveUp(err)
}

// unanswered handles a call that the host did not answer: it is dying, or it
// hangs. Either way another one takes over, within the recovery budget.
func (a *agent) unanswered(err error) {
	a.log.Warn("the host does not answer", "err", err)
	timer := time.NewTimer(hostDeathWait)
	defer timer.Stop()
	select {
	case <-a.plugin.Done():
		return // loop sees the lost host next
	case <-a.killCtx.Done():
		return
	case <-timer.C:
	}
	a.step(a.hostLost)
}

// hostDeathWait is how long a host's process may take to be seen as dead after
// a call to it broke.
const hostDeathWait = 2 * time.Second

// save commits the actor's record, with more in the same transaction.
func (a *agent) save(ctx context.Context, more func(tx *store.Tx, c *change) error) error {
	rec := a.rec
	return a.sup.commit(ctx, func(tx *store.Tx, c *change) error {
		if err := tx.PutAgentRun(&rec); err != nil {
			return err
		}
		c.before = func() {
			a.mu.Lock()
			c.wake = a.jobID == "" // who waits for the root's thread looks at its run
			a.recorded = rec
			a.mu.Unlock()
		}
		if more == nil {
			return nil
		}
		return more(tx, c)
	})
}

// snapshot returns the last committed record, for other goroutines.
func (a *agent) snapshot() store.AgentRun {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.recorded
}

func (a *agent) signalLaunched(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if chanClosed(a.launched) {
		return
	}
	a.launchErr = err
	close(a.launched)
}

// launchError returns why the agent could not be launched, nil when it was or
// still may be.
func (a *agent) launchError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !chanClosed(a.launched) {
		return nil
	}
	return a.launchErr
}

// do runs f in the actor and waits for it.
func (a *agent) do(ctx context.Context, f func(context.Context)) error {
	ran := make(chan struct{})
	wrapped := func(c context.Context) { defer close(ran); f(c) }
	select {
	case a.inbox <- wrapped:
		<-ran
		return nil
	case <-a.ended:
		return core.Errorf(core.KindRuntime, "agent %s is not running any more", a.ref)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill asks the actor to retire its processes, for the given reason.
func (a *agent) kill(reason *killReason) { a.killFn(reason) }

func (a *agent) fence() *basepb.Fence {
	return &basepb.Fence{SessionId: a.sup.session, Epoch: a.sup.epoch}
}

// dir is the private folder of the agent run's processes.
func (a *agent) dir() string {
	return filepath.Join(a.sup.cfg.Folders.SessionDir(a.sup.session), "agents", a.ref)
}

// evidenceDir is where the run's evidence lies.
func (a *agent) evidenceDir() string {
	if a.jobID == "" {
		return a.sup.cfg.Folders.SessionDir(a.sup.session)
	}
	return a.sup.cfg.Folders.JobDir(a.jobID)
}

func (a *agent) follow(kind, text string) {
	a.sup.hub.emit(followEvent(kind, a.rec.Agent, a.jobID, text))
}

func chanClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// openWindow is how long a host may take to open an agent's thread: Codex waits
// for the tool servers that it needs.
func (s *Supervisor) openWindow(agent string) time.Duration {
	return max(minOpen, time.Duration(s.snap.StartTimeout(agent)*float64(time.Second)))
}

// controlTimeout is the deadline of a call for which the host may take the
// window: its own word, that it took too long, must come first.
func controlTimeout(window time.Duration) time.Duration { return window + controlExtra }

// short bounds a context for one command to a host.
func short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, rpcTimeout)
}
