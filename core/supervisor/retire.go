package supervisor

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// killReason says why an agent is retired and what becomes of it. It is the
// cause of the agent's kill context.
type killReason struct {
	status core.JobStatus // cancelled, stopped, failed
	text   string
	rolled bool           // member of a batch that was rolled back
	note   map[string]any // for the audit row of a session's end
}

// Bounds of an agent's end.
const (
	retireTimeout   = 60 * time.Second // of all of it
	hostStopTimeout = 20 * time.Second // of the host's part
)

func (k *killReason) Error() string { return "the agent is ended: " + k.text }

// finishPublished retires the processes of an agent whose ending is published.
// A suspended root keeps its engine: resume takes it up again.
func (a *agent) finishPublished(ctx context.Context) error {
	if a.jobID == "" {
		// The root's engine is retired with the session: until then a worker's
		// end may wake it, and after a suspension a resume takes it up again.
		a.compactPending(ctx)
		return nil
	}
	a.done = true
	a.settleCompaction(ctx, core.Errorf(core.KindRuntime, "the agent ended before its context could be shortened"))
	if err := a.retire(ctx, false); err != nil {
		if errors.As(err, new(recordError)) {
			return err
		}
		// The ending stands; what would not die is on record and shown.
		a.log.Error("retiring the agent", "err", err)
		return nil
	}
	a.dropOwnWorktree(ctx)
	return nil
}

// dropOwnWorktree drops the agent's worktree, if it has one that may go. One
// that can't be removed stays, and is tried again by the next supervisor.
func (a *agent) dropOwnWorktree(ctx context.Context) {
	if a.jobID == "" {
		return
	}
	if err := a.dropWorktree(context.WithoutCancel(ctx)); err != nil {
		a.log.Error("the job's worktree stays", "err", err)
	}
}

// retireLeftover is how an actor begins whose job is over while its processes
// are not known to be gone.
func (a *agent) retireLeftover(ctx context.Context) error { return a.finishPublished(ctx) }

// retireKilled ends an agent that was cancelled, stopped or rolled back.
func (a *agent) retireKilled(reason *killReason) {
	ctx := context.WithoutCancel(a.sup.life)
	a.signalLaunched(reason)
	if err := a.retire(ctx, true); err != nil {
		a.log.Error("retiring the agent", "err", err)
	}
	e := ending{job: reason.status, session: core.SessionStopped, reason: reason.text, rolled: reason.rolled}
	if reason.status == core.JobFailed {
		e.err = reason.text
	}
	for _, text := range a.lastText {
		e.kind, e.text = core.ResultPartial, text
	}
	if a.jobID == "" {
		return // the session's verb publishes the session
	}
	if reason.status == core.JobPaused && a.rec.ThreadID != "" {
		e.kind, e.text = core.ResultPartial, a.partialText(reason)
	}
	if err := a.endKilled(ctx, e); err != nil {
		a.sup.fatal(err)
		return
	}
	a.dropOwnWorktree(ctx)
}

// endKilled publishes the ending of a killed job after its processes are gone.
func (a *agent) endKilled(ctx context.Context, e ending) error {
	ref, err := a.publishText(e)
	if err != nil {
		return err
	}
	now := a.sup.cfg.now().UTC()
	return a.sup.updateJob(ctx, a.jobID, func(tx *store.Tx, j *store.Job) error {
		if !finalise(j, e, ref, now) {
			if !j.Status.Terminal() {
				a.log.Error("a job can't end so", "status", j.Status, "end", e.job)
			}
			return errUnchanged
		}
		return a.sup.audit(tx, "agent_ended", a.jobID, "supervisor", map[string]any{"status": string(j.Status)})
	})
}

// retire ends host, engine and all below them, takes back the tokens, and
// records what would not die.
func (a *agent) retire(ctx context.Context, interrupt bool) error {
	if a.rec.Retired {
		return nil
	}
	// An end that has begun is carried through, whoever stops caring for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retireTimeout)
	defer cancel()
	stopErr := a.stopEngine(ctx, interrupt)
	a.keepRows(ctx)
	hostErr := a.retireHost(ctx)
	kinds := []string{capGateway}
	if a.jobID != "" { // a root that comes back is the same caller: its token goes with the session
		kinds = append(kinds, capCaller)
	}
	if err := a.sup.revokeTokens(ctx, a.ref, kinds...); err != nil {
		return err
	}
	if g := a.sup.gw.Load(); g != nil {
		g.revoke(ctx, a.ref)
	}
	a.rec.Retired = stopErr == nil && hostErr == nil
	a.rec.ActiveTurnID = ""
	failed := errors.Join(stopErr, hostErr)
	events, err := a.sealTrail()
	if err != nil {
		return recordError{err}
	}
	err = a.save(ctx, func(tx *store.Tx, c *change) error {
		if a.jobID == "" {
			rec, err := tx.Session(a.sup.session)
			if err != nil || rec.Status.Terminal() {
				return err
			}
			rec.RootEvents = events
			return c.putSession(tx, rec)
		}
		j, err := tx.Job(a.jobID)
		if err != nil {
			return err
		}
		j.Events = events
		if failed != nil {
			j.Warning = failed.Error()
		}
		return c.noteJob(tx, j)
	})
	return errors.Join(err, failed)
}

// stopEngine ends the engine and everything below it, through the host when it
// answers and by identity and mark in any case.
func (a *agent) stopEngine(ctx context.Context, interrupt bool) error {
	if a.host != nil && !chanClosed(a.plugin.Done()) {
		c, cancel := context.WithTimeout(ctx, hostStopTimeout)
		_, err := a.host.Stop(c, &hostpb.StopRequest{Fence: a.fence(), GraceMs: uint32(stopGrace.Milliseconds()), Interrupt: interrupt})
		cancel()
		if err != nil {
			a.log.Warn("the host could not stop its engine; it is ended by identity", "err", err)
		}
	}
	survivors, err := process.Retire(ctx, identityOf(a.rec.Engine), &process.RetireOptions{Grace: stopGrace, Mark: a.ref + "/"})
	a.rec.Survivors = recordsOf(survivors)
	return err
}

// retireHost ends the host plugin's process.
func (a *agent) retireHost(ctx context.Context) error {
	if a.plugin != nil {
		_, err := a.plugin.Retire(ctx, stopGrace)
		a.disconnect()
		return err
	}
	id := identityOf(a.rec.Host.Process)
	if id.Zero() {
		return nil
	}
	_, err := process.Retire(ctx, id, &process.RetireOptions{Grace: stopGrace})
	return errors.Join(err, removeInstance(a.hostDir()))
}

func folderOf(parent, name string) string {
	if name == "" {
		return ""
	}
	return filepath.Join(parent, name)
}
