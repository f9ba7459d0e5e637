package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// isChildOf reports whether a peer is a child of the recorded engine.
func (s *Supervisor) isChildOf(peer access.Peer, engine store.Process) bool {
	parent, err := process.Parent(peer.PID)
	return err == nil && parent == engine.PID && identityOf(engine).Alive()
}

// SessionView is the public record of the session with its jobs.
func (s *Supervisor) SessionView() *control.SessionView {
	rec := s.cachedSession()
	v := ViewSession(rec)
	v.Supervised = true
	run := s.runNow(rec.RootAgentRef)
	v.RootThreadID, v.ActiveTurnID, v.Recoveries, v.NativeRuns = run.ThreadID, run.ActiveTurnID, run.RecoveryAttempts, nativeViews(&run)
	for _, j := range s.allJobs() {
		v.Jobs = append(v.Jobs, s.jobView(j))
	}
	v.Usage = s.usageViews()
	return v
}

// ViewSession is what a session's row alone says, without its jobs.
func ViewSession(rec *store.Session) *control.SessionView {
	run := rec.CurrentRunID
	if run == "" {
		run = rec.LastRunID
	}
	view := &control.SessionView{
		SessionID: rec.SessionID, ProfileID: rec.ProfileID, ProfileVersion: rec.ProfileVersion, SnapshotHash: rec.SnapshotHash,
		Kind: rec.Kind, Status: string(rec.Status), Workspace: rec.Workspace, RootAgent: rec.RootAgent,
		RunID: run, RunSequence: rec.RunSequence, CreatedAt: rec.CreatedAt, StartedAt: rec.StartedAt,
		FinishedAt: rec.FinishedAt, LastActiveAt: rec.LastActiveAt, Error: rec.Error, Failure: viewFailure(rec.Failure),
		ResultKind: rec.RootResultKind, RuntimeCurrent: thisRuntime().current(rec.Binary), Deferred: rec.Deferred,
		Tainted: rec.Tainted, TaintReasons: taintReasons(rec), ResumeError: rec.ResumeError, CompactError: rec.CompactionError,
		Codex:           control.CodexView{Version: rec.Codex.Version, SHA256: rec.Codex.SHA256, Verdict: rec.Codex.Verdict},
		RootPermissions: rec.SandboxMode, Bindings: rec.Bindings, RouteFaults: rec.RouteFaults,
		RouteAvailability: viewRoutes(rec.RouteAvailability), ProfileWarnings: rec.Warnings,
	}
	if rec.Kind == KindAmbient && rec.Client != nil {
		view.Client = &control.ClientView{Name: rec.ClientName, PID: rec.Client.PID, ThreadID: rec.ClientThread}
	}
	return view
}

func viewRoutes(routes map[string]store.Availability) map[string]control.RouteAvailability {
	views := make(map[string]control.RouteAvailability, len(routes))
	for id, r := range routes {
		views[id] = control.RouteAvailability(r)
	}
	return views
}

// ViewHomes tells the operator what the homes of a session were given.
func ViewHomes(rec *store.Session) map[string]control.HomeView {
	views := make(map[string]control.HomeView, len(rec.Homes))
	for agent, h := range rec.Homes {
		views[agent] = control.HomeView{
			Home: h.Dir, Skill: h.Skill, SkillSHA256: h.SkillSHA256, Catalog: h.Catalog, CatalogSHA256: h.CatalogSHA256,
			NativeAgentFiles: h.NativeAgentFiles, DirectHeaderEnvs: orEmpty(h.DirectHeaderEnvs), ToolEnvs: orEmpty(h.ToolEnvs),
			ToolHTTPEnvs: orEmpty(h.ToolHTTPEnvs), CommandFlags: orEmpty(h.CommandFlags), Warnings: h.Warnings,
		}
	}
	return views
}

// orEmpty makes a list that JSON shows as empty rather than null.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func viewFailure(f *store.Failure) *control.FailureView {
	if f == nil {
		return nil
	}
	return &control.FailureView{
		Kind: f.Kind, Message: f.Message, Retryable: f.Retryable,
		RetryAtRaw: f.RetryAtRaw, RetryAt: f.RetryAt, RetryAtTimezone: f.RetryAtTimezone,
	}
}

func (s *Supervisor) jobView(j *store.Job) control.JobView {
	run := s.runNow(j.AgentRef)
	return ViewJob(j, &run, s.cachedSession().Binary)
}

// ViewJob is the public record of a job. run may be nil.
func ViewJob(j *store.Job, run *store.AgentRun, binary store.BinaryPin) control.JobView {
	v := control.JobView{
		JobID: j.JobID, AgentRunRef: j.AgentRef, BatchID: j.BatchID, ParentJobID: j.ParentJobID, Agent: j.Agent,
		ForkSourceJobID: j.ForkSourceJobID, ForkThreadID: j.ForkThreadID, TaskKind: j.TaskKind, Mode: j.Mode, Status: string(j.Status), Revision: j.Revision,
		ResultKind: string(j.ResultKind), ResultState: string(j.ResultState),
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, LastProgressAt: j.LastProgressAt,
		RuntimeCurrent: thisRuntime().current(binary), Error: j.Error, Warning: j.Warning, Failure: viewFailure(j.Failure),
		CancelReason: j.CancelReason, RolledBack: j.RolledBack,
	}
	v.BudgetTokens = j.Reserved.Tokens
	if j.Reserved.NanoUSD > 0 {
		v.BudgetUSD = usdNumber(j.Reserved.NanoUSD)
	}
	if j.Usage != nil {
		v.Usage = &control.TokenUsage{
			InputTokens: j.Usage.InputTokens, CachedInputTokens: j.Usage.CachedInputTokens,
			OutputTokens: j.Usage.OutputTokens, EventCount: j.Usage.EventCount,
		}
	}
	if c := j.Contract; c != nil {
		v.ContractTransport, v.ContractValid, v.ContractRepairAttempted, v.ContractErrors = c.Transport, c.Valid, c.RepairAttempted, c.Errors
		for _, a := range c.Artifacts {
			v.Artifacts = append(v.Artifacts, control.ArtifactView(a))
		}
	}
	if p := j.Patch; p != nil {
		v.Patch = &control.PatchView{
			ChangedPaths: p.Changed, TotalPaths: p.Total, FlaggedPaths: p.Flagged, RefusedPaths: p.Refused,
			SHA256: p.File.SHA256, BaseCommit: j.Worktree.BaseCommit, Integrated: j.ResultState == core.ResultIntegrated,
		}
	}
	if run != nil {
		v.ThreadID, v.ActiveTurnID, v.LastTurnID, v.ApprovalPolicy = run.ThreadID, run.ActiveTurnID, run.LastTurnID, run.ApprovalPolicy
		v.RecoveryAttempts, v.RecoveryError, v.EvidenceComplete = run.RecoveryAttempts, run.RecoveryError, run.EvidenceComplete
		v.ExecutionMode = run.ExecutionMode
		if run.Goal != nil {
			v.GoalStatus, v.GoalTokenBudget, v.MaxGoalBudget = run.Goal.Status, run.Goal.TokenBudget, run.Goal.MaxTokenBudget
		}
		v.ControlRevision, v.ControlStatus = run.ControlRevision, string(run.LastControlStatus)
		v.NativeRuns = nativeViews(run)
	}
	return v
}

// runsNow returns the agent runs as they were last committed: agent run ref ->
// record.
func (s *Supervisor) runsNow() map[string]store.AgentRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make(map[string]store.AgentRun, len(s.runs))
	for ref, rec := range s.runs {
		runs[ref] = *rec
	}
	for ref, a := range s.agents { // an agent's own lock is always the inner one
		runs[ref] = a.snapshot()
	}
	return runs
}

func (s *Supervisor) runNow(ref string) store.AgentRun { return s.runsNow()[ref] }

// allJobs lists the session's jobs, oldest first.
func (s *Supervisor) allJobs() []*store.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*store.Job, 0, len(s.jobs))
	for _, j := range s.jobs {
		copied := *j
		list = append(list, &copied)
	}
	slices.SortFunc(list, func(a, b *store.Job) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		if a.JobID < b.JobID {
			return -1
		}
		return 1
	})
	return list
}

func (s *Supervisor) usageViews() []control.UsageView {
	var list []*store.Usage
	err := s.store.View(context.WithoutCancel(s.life), func(tx *store.Tx) (err error) {
		list, err = tx.UsageOf(s.session)
		return err
	})
	if err != nil {
		s.log.Warn("reading the usage", "err", err)
	}
	return ViewUsage(list, s.runsNow())
}

// ViewUsage names the agents of usage rows. runs maps an agent run ref to its
// record.
func ViewUsage(list []*store.Usage, runs map[string]store.AgentRun) []control.UsageView {
	var views []control.UsageView
	for _, u := range list {
		views = append(views, control.UsageView{
			AgentRunRef: u.AgentRef, Agent: runs[u.AgentRef].Agent, JobID: runs[u.AgentRef].JobID, Route: u.Route, Model: u.Model,
			Requests: u.Requests, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens, OutputTokens: u.OutputTokens, Scripted: u.Scripted,
			USD: usdNumber(u.NanoUSD), Unpriced: u.Unpriced,
		})
	}
	return views
}

// processes lists what works for the session, for the operator.
func (s *Supervisor) processes() []control.ProcessView {
	list := []control.ProcessView{{Role: "supervisor", Owner: s.session, PID: s.self.PID, Alive: true}}
	if keeper := s.keeperPID(); keeper > 1 {
		list = append(list, control.ProcessView{Role: "keeper", Owner: s.session, PID: keeper, Alive: true})
	}
	add := func(role, owner string, p store.Process) {
		if p.PID != 0 {
			list = append(list, control.ProcessView{Role: role, Owner: owner, PID: p.PID, Alive: identityOf(p).Alive()})
		}
	}
	runs := s.runsNow()
	for _, ref := range slices.Sorted(maps.Keys(runs)) {
		rec := runs[ref]
		if rec.Retired {
			continue
		}
		add("host", rec.AgentRef, rec.Host.Process)
		add("app-server", rec.AgentRef, rec.Engine)
	}
	if g := s.gw.Load(); g != nil {
		if row, err := g.row(context.WithoutCancel(s.life)); err == nil && row != nil {
			add("gateway", row.GatewayHash, row.Process)
		}
	}
	return list
}

// keeperPID is the living keeper's, 0 when there is none that we know of.
func (s *Supervisor) keeperPID() int {
	if k := s.keeperIdentity(); k.Alive() {
		return k.PID
	}
	return 0
}

// evidence lists the session's files and whether they are what was recorded.
func (s *Supervisor) evidence() []control.EvidenceView {
	rec := s.cachedSession()
	return ListEvidence(s.cfg.Folders.SessionDir(s.session), s.cfg.Folders.JobDir, rec, s.allJobs())
}

// ListEvidence names the files of a session and its jobs, and whether those that
// rows vouch for seem to be what they were.
func ListEvidence(sessionDir string, jobDir func(string) string, rec *store.Session, jobs []*store.Job) []control.EvidenceView {
	var list []control.EvidenceView
	add := func(owner, dir string, refs ...store.FileRef) {
		for _, ref := range refs {
			if ref.Name == "" {
				continue
			}
			v := control.EvidenceView{Owner: owner, Name: ref.Name, Path: filepath.Join(dir, ref.Name), Size: ref.Size, SHA256: ref.SHA256, State: "present"}
			// The content is proven when it is read; here the size must do.
			switch info, err := os.Lstat(v.Path); {
			case err != nil:
				v.State = "missing"
			case !info.Mode().IsRegular() || info.Size() != ref.Size:
				v.State = "differs"
			}
			list = append(list, v)
		}
	}
	grow := func(owner, dir, name string) {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			list = append(list, control.EvidenceView{Owner: owner, Name: name, Path: filepath.Join(dir, name), Size: info.Size(), State: "growing"})
		}
	}
	add(rec.SessionID, sessionDir, rec.RootPrompt, rec.RootResult, rec.RootEvents)
	if rec.RootEvents.Name == "" {
		grow(rec.SessionID, sessionDir, "root-events.jsonl")
	}
	for _, j := range jobs {
		add(j.JobID, jobDir(j.JobID), j.Task, j.Result)
		if j.Patch != nil {
			add(j.JobID, jobDir(j.JobID), j.Patch.File)
		}
		if w := j.Worktree; w != nil && !w.Removed {
			list = append(list, control.EvidenceView{Owner: j.JobID, Name: "worktree", Path: w.Dir, State: "kept"})
		}
		add(j.JobID, jobDir(j.JobID), j.Events)
		if j.Events.Name == "" {
			grow(j.JobID, jobDir(j.JobID), "events.jsonl")
		}
	}
	return list
}

// runtime is the build that runs here.
type runtime struct {
	stamp  string                 // process.Stamp of its executable; empty when it can't be had
	digest func() (string, error) // sha256 of it, computed on demand
}

// thisRuntime describes the running build, once per process.
var thisRuntime = sync.OnceValue(func() runtime {
	path, err := os.Executable()
	if err != nil {
		return runtime{digest: func() (string, error) { return "", err }}
	}
	r := runtime{digest: sync.OnceValues(func() (string, error) { return digestFile(path) })}
	if info, err := os.Stat(path); err == nil {
		r.stamp = process.Stamp(info)
	}
	return r
})

// current reports whether a session runs on this very build. A build that
// can't be read is not this one; it is no error. The content is read only when
// the file is neither the kept one nor the one that was kept.
func (r runtime) current(pin store.BinaryPin) bool {
	if r.stamp != "" && (r.stamp == pin.Stamp || r.stamp == pin.Origin) {
		return true
	}
	own, err := r.digest()
	return err == nil && own == pin.SHA256
}

func digestFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", core.Errorf(core.KindOS, "hashing %s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", core.Errorf(core.KindOS, "hashing %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
