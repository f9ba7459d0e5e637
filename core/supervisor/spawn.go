package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// Bounds of a spawn.
const (
	maxBatch     = 32      // jobs in one call
	maxTaskRunes = 200_000 // of one task's text
)

// Spawn admits jobs together or not at all, launches them, and answers once
// every engine exists. A repeat of the same request gets the same jobs, also one
// that comes while the first is under way.
func (s *Supervisor) Spawn(ctx context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
	caller, err := s.admit(ctx, call, control.VerbSpawn, nil)
	if err != nil {
		return nil, err
	}
	if err := checkSpecs(r.Agents); err != nil {
		return nil, err
	}
	key := s.undone.begin(caller.AgentRef, call, r)
	if key == "" {
		return s.spawnOnce(ctx, caller, call, "", r)
	}
	unlock, err := s.spawning.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.spawnOnce(ctx, caller, call, key, r)
}

func (s *Supervisor) spawnOnce(ctx context.Context, caller access.Caller, call control.Call, key string, r control.SpawnRequest) (*control.SpawnResponse, error) {
	batch, repeated, err := s.admitBatch(ctx, caller, key, r.Agents)
	if err != nil {
		s.undone.forget(caller.AgentRef, call)
		return nil, err
	}
	if repeated {
		return s.spawnResponse(batch, true)
	}
	if err := s.launchBatch(ctx, batch); err != nil {
		s.undone.forget(caller.AgentRef, call)
		return nil, s.forgetBatch(ctx, key, err)
	}
	return s.spawnResponse(batch, false)
}

func checkSpecs(specs []control.SpawnSpec) error {
	if len(specs) == 0 || len(specs) > maxBatch {
		return core.Errorf(core.KindValue, "a spawn takes 1 to %d agents, not %d", maxBatch, len(specs))
	}
	for _, spec := range specs {
		switch {
		case spec.LiteralTask != nil && utf8.RuneCountInString(spec.LiteralTask.Text+spec.LiteralTask.Needle) > maxTaskRunes:
			return core.Errorf(core.KindValue, "the literal_task of agent %q is longer than %d characters", spec.Agent, maxTaskRunes)
		case spec.LiteralTask != nil && workspace.CheckScope(spec.LiteralTask.Paths) != nil:
			return core.Errorf(core.KindValue, "the paths of agent %q's literal_task must lie in the workspace", spec.Agent).
				WithRemedy("name files by their path from the workspace's folder")
		case utf8.RuneCountInString(spec.Task) > maxTaskRunes:
			return core.Errorf(core.KindValue, "the task of agent %q is longer than %d characters", spec.Agent, maxTaskRunes)
		case workspace.CheckScope(spec.WriteScope) != nil:
			return workspace.CheckScope(spec.WriteScope)
		case len(spec.Attachments) > 0:
			return core.Errorf(core.KindValue, "agent %q takes no attachments", spec.Agent)
		}
	}
	return nil
}

// admitBatch drafts a batch, and decides and records it. Prompts are on
// disk before it: a file without a row is garbage, a row without its file
// would be a lie.
func (s *Supervisor) admitBatch(ctx context.Context, caller access.Caller, key string, specs []control.SpawnSpec) (batch spawnAnswer, repeated bool, err error) {
	members, err := s.draftJobs(caller, specs)
	if err != nil {
		s.discard(members)
		return batch, false, err
	}
	return s.admitMembers(ctx, caller, key, members)
}

// discard removes what was published of jobs that no row names.
func (s *Supervisor) discard(members []member) {
	for _, m := range members {
		_ = os.RemoveAll(s.cfg.Folders.JobDir(m.job.JobID)) // garbage at worst
	}
}

// admitMembers decides and records drafted jobs in one transaction.
func (s *Supervisor) admitMembers(ctx context.Context, caller access.Caller, key string, members []member) (batch spawnAnswer, repeated bool, err error) {
	defer func() {
		if err != nil || repeated {
			s.discard(members)
		}
	}()
	drafted := answerOf(members)
	raw, err := drafted.encode()
	if err != nil {
		return batch, false, err
	}
	err = s.commitAdmission(ctx, func(tx *store.Tx, c *change) error {
		earlier, found, err := s.repeatOf(tx, key)
		if err != nil || found {
			batch, repeated = earlier, found
			return err
		}
		batch = drafted
		if err := s.decide(tx, caller, members); err != nil {
			return err
		}
		for _, m := range members {
			if err := s.recordJob(tx, c, caller, m); err != nil {
				return err
			}
		}
		if key == "" {
			return nil
		}
		return tx.PutSpawnKey(s.session, key, raw)
	})
	return batch, repeated, err
}

// decide admits a batch and gives each member its part of the budget and its
// place below the caller.
func (s *Supervisor) decide(tx *store.Tx, caller access.Caller, members []member) error {
	view, err := s.admissionView(tx, caller)
	if err != nil {
		return err
	}
	requests := make([]admission.Request, len(members))
	for i, m := range members {
		requests[i] = m.request
	}
	parts, err := admission.Decide(view, requests)
	if err != nil {
		return err
	}
	for i, m := range members {
		m.job.Reserved, m.job.Depth = parts[i], view.Caller.Depth+1
	}
	return nil
}

// repeatOf returns the batch that the same request started before. A batch that
// was rolled back started nothing.
func (s *Supervisor) repeatOf(tx *store.Tx, key string) (batch spawnAnswer, found bool, err error) {
	if key == "" {
		return batch, false, nil
	}
	raw, found, err := tx.SpawnKey(s.session, key)
	if err == nil && found {
		err = json.Unmarshal(raw, &batch)
	}
	return batch, found && len(batch.JobIDs) > 0, err
}

// forgetBatch makes a request whose batch was rolled back new again.
func (s *Supervisor) forgetBatch(ctx context.Context, key string, cause error) error {
	if key == "" || s.life.Err() != nil {
		return cause
	}
	raw, err := spawnAnswer{}.encode()
	if err == nil {
		err = s.commit(context.WithoutCancel(ctx), func(tx *store.Tx, _ *change) error { return tx.PutSpawnKey(s.session, key, raw) })
	}
	return errors.Join(cause, err)
}

// requestOf describes a job to admission. scope is of a writer.
func requestOf(spec control.SpawnSpec, lease store.Lease) admission.Request {
	r := admission.Request{
		Agent: spec.Agent, TaskKind: spec.TaskKind, Mode: modeOf(spec), HasTask: strings.TrimSpace(spec.Task) != "",
		Scope: admission.Scope{Named: len(spec.WriteScope) > 0, Paths: lease.Paths, FoldsCase: lease.FoldsCase},
	}
	if l := spec.LiteralTask; l != nil {
		r.Literal = &admission.Literal{Operation: l.Operation, Text: l.Text, MaxPoints: l.MaxPoints, Needle: l.Needle, Paths: l.Paths}
	}
	return r
}

// scopeOf is what a job may change, relative to the workspace: all of it when
// nothing is said, nothing when it only reads.
func scopeOf(spec control.SpawnSpec) []string {
	if modeOf(spec) != admission.ModeWorkspace {
		return nil
	}
	if len(spec.WriteScope) == 0 {
		return []string{"."}
	}
	return spec.WriteScope
}

func modeOf(spec control.SpawnSpec) string {
	if spec.Mode == "" {
		return admission.ModeReadOnly
	}
	return spec.Mode
}

// member is a job to be, with what it is admitted by.
type member struct {
	job     *store.Job
	request admission.Request
	text    string // its first input
}

func answerOf(members []member) (batch spawnAnswer) {
	for _, m := range members {
		batch.BatchID = m.job.BatchID
		batch.JobIDs = append(batch.JobIDs, m.job.JobID)
	}
	return batch
}

// draftJobs makes the records of a batch and publishes its prompts.
func (s *Supervisor) draftJobs(caller access.Caller, specs []control.SpawnSpec) ([]member, error) {
	now, random := s.cfg.now().UTC(), s.cfg.random()
	batch := core.NewBatchID(random)
	rec := s.cachedSession()
	var members []member
	for _, spec := range specs {
		j := &store.Job{
			SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage,
			JobID: core.NewJobID(now, spec.Agent, random), SessionID: s.session, RunID: s.runID, ProfileID: rec.ProfileID,
			AgentRef: core.NewAgentRef(random), Agent: spec.Agent, BatchID: batch, ParentJobID: caller.JobID,
			TaskKind: spec.TaskKind, Mode: modeOf(spec), WriteScope: scopeOf(spec), Cwd: rec.Workspace,
			Status: core.JobQueued, CreatedAt: now,
		}
		r := resourceOf(s.snap, s.snap.Agents[spec.Agent])
		j.LockKey, j.Units = r.LockKey, r.Units
		j.Literal = literalOf(spec.LiteralTask)
		var err error
		if j.Contract, err = contractFor(s.snap, spec.Agent); err != nil {
			return members, err
		}
		if j.Lease.Paths, j.Lease.FoldsCase, err = leaseOf(rec.Workspace, j.WriteScope); err != nil {
			return members, err
		}
		text := taskText(spec)
		if err := folders.MakeDir(s.cfg.Folders.JobDir(j.JobID)); err != nil {
			return members, err
		}
		if j.Task, err = store.Publish(s.cfg.Folders.JobDir(j.JobID), "prompt.txt", []byte(text)); err != nil {
			return members, err
		}
		members = append(members, member{j, requestOf(spec, j.Lease), text})
	}
	return members, nil
}

// leaseOf is where a write scope is on disk; nothing for one who reads.
func leaseOf(dir string, scope []string) ([]string, bool, error) {
	if len(scope) == 0 {
		return nil, false, nil
	}
	return workspace.ResolveScope(dir, scope)
}

// holding lists the statuses of jobs that hold capacity.
var holding = []core.JobStatus{
	core.JobQueued, core.JobRunning, core.JobWaiting, core.JobCancelling, core.JobDetached, core.JobRecovering,
}

func holdsCapacity(status core.JobStatus) bool { return slices.Contains(holding, status) }

// recordJob writes a job, its agent run, its first input and its audit row.
func (s *Supervisor) recordJob(tx *store.Tx, c *change, caller access.Caller, m member) error {
	j := m.job
	role, err := s.snapshotAgent(j.Agent)
	if err != nil {
		return err
	}
	details := map[string]any{
		"agent": j.Agent, "batch_id": j.BatchID, "task_kind": j.TaskKind, "mode": j.Mode, "task_sha256": j.Task.SHA256,
	}
	if j.ForkThreadID != "" {
		details["fork_source_job_id"], details["fork_thread_id"] = j.ForkSourceJobID, j.ForkThreadID
	}
	err = s.audit(tx, "agent_started", j.JobID, caller.Agent, details)
	if err != nil {
		return err
	}
	if err := c.putJob(tx, j); err != nil {
		return err
	}
	return putAgentRun(tx, &agentDraft{
		session: s.session, ref: j.AgentRef, jobID: j.JobID, role: role, home: s.homeDir(j.Agent),
		input: core.NewInputID(s.cfg.random()), text: m.text, now: s.cfg.now().UTC(),
	})
}

// launchBatch launches the members side by side. If one can't be launched, all
// are retired.
func (s *Supervisor) launchBatch(ctx context.Context, batch spawnAnswer) error {
	var members []*agent
	for _, id := range batch.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil {
			return err
		}
		role, err := s.snapshotAgent(j.Agent)
		if err != nil {
			return err
		}
		rec, err := s.loadRun(ctx, j.AgentRef)
		if err != nil {
			return err
		}
		if a := s.claim(rec, role); a != nil { // else it was cancelled before it began
			a.start((*agent).launch)
			members = append(members, a)
		}
	}
	var failed error
	for _, a := range members {
		select {
		case <-a.launched:
			if err := a.launchError(); err != nil && failed == nil {
				failed = fmt.Errorf("agent %s: %w", a.role.ID, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if failed == nil {
		return nil
	}
	return s.rollBack(members, failed)
}

// rollBack retires all members of a batch after one could not be launched.
func (s *Supervisor) rollBack(members []*agent, cause error) error {
	if s.life.Err() != nil {
		return context.Cause(s.life) // the next supervisor goes on with them
	}
	for _, a := range members {
		a.kill(&killReason{status: core.JobFailed, text: "atomic batch launch rolled back: " + cause.Error(), rolled: true})
	}
	for _, a := range members {
		<-a.ended
	}
	return core.Errorf(core.KindRuntime, "atomic batch launch rolled back: %w", cause).
		WithRemedy("nothing was started; mend the cause and spawn again")
}

func (s *Supervisor) spawnResponse(batch spawnAnswer, repeated bool) (*control.SpawnResponse, error) {
	answer := &control.SpawnResponse{Atomic: true, BatchID: batch.BatchID, Rejected: []control.RejectedJob{}, Repeated: repeated}
	for _, id := range batch.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil {
			return nil, err
		}
		answer.Accepted = append(answer.Accepted, control.AcceptedJob{
			JobID: j.JobID, AgentRunRef: j.AgentRef, Agent: j.Agent, Status: string(j.Status),
		})
	}
	return answer, nil
}
