package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// launch brings up a new agent: host, engine, thread, first input.
func (a *agent) launch(ctx context.Context) error {
	if err := a.mayLaunch(); err != nil {
		a.signalLaunched(err)
		return err
	}
	return a.comeBack(ctx)
}

// mayLaunch refuses to start processes for a job that was cancelled, or a
// session that began to end, between its admission and now.
func (a *agent) mayLaunch() error {
	rec := a.sup.cachedSession()
	if rec.ColdPausePending {
		return core.Errorf(core.KindRuntime, "the session is being paused")
	}
	if !rec.Status.Admitting() && (a.jobID != "" || rec.Status != core.SessionStarting) {
		return core.Errorf(core.KindRuntime, "the session is %s", rec.Status)
	}
	if a.jobID == "" {
		return nil
	}
	j, err := a.sup.cachedJob(a.jobID)
	if err == nil && (j.Status.Terminal() || j.Status == core.JobCancelling) {
		err = core.Errorf(core.KindRuntime, "the job is %s", j.Status)
	}
	return err
}

// startHost starts a host plugin for the agent and connects to it. The intent
// is a row before the process exists; its identity is a row before anything
// relies on it.
func (a *agent) startHost(ctx context.Context) error {
	s := a.sup
	instance := "h" + newInstance(s.cfg.random())
	dir := filepath.Join(s.cfg.Folders.RuntimeDir(s.session), instance)
	launch := store.Launch{LaunchID: instance, SessionID: s.session, Owner: a.ref, Role: "host", IntentAt: s.cfg.now().UTC()}
	binary := s.cachedSession().Binary
	a.rec.Host = store.HostRef{Instance: instance, SHA256: binary.SHA256}
	if err := a.save(ctx, func(tx *store.Tx, _ *change) error { return tx.PutLaunch(&launch) }); err != nil {
		return err
	}
	if err := folders.MakeDir(a.dir()); err != nil {
		return core.Errorf(core.KindOS, "making the agent's folder: %w", err)
	}
	plugin, err := pluginhost.Start(ctx, &pluginhost.Spec{
		Kind: "host", Path: binary.Path, SHA256: binary.SHA256, Stamp: binary.Stamp, Args: []string{"plugin", "host"},
		Env: BaseEnv(s.cfg.Getenv), Dir: dir, LogPath: filepath.Join(a.dir(), "host.log"),
	}, func(id process.Identity) error {
		a.rec.Host.Process = recordOf(id)
		launch.Process = recordOf(id)
		at := s.cfg.now().UTC()
		launch.RecordedAt = &at
		return a.save(ctx, func(tx *store.Tx, _ *change) error { return tx.PutLaunch(&launch) })
	})
	if err != nil {
		return core.Errorf(core.KindRuntime, "starting the host of agent %s: %w", a.rec.Agent, err)
	}
	ref := plugin.Ref()
	a.rec.Host.Socket, a.rec.Host.Protocol = ref.Socket, ref.Protocol
	a.connect(plugin)
	return a.save(ctx, nil)
}

// connect makes plugin the agent's host.
func (a *agent) connect(plugin *pluginhost.Plugin) {
	a.disconnect()
	a.plugin = plugin
	a.host = hostpb.NewHostClient(plugin.Conn())
}

// disconnect drops the connection to the host; the process lives on.
func (a *agent) disconnect() {
	if a.stream != nil {
		a.stream()
		a.stream = nil
	}
	if a.plugin != nil {
		if err := a.plugin.Close(); err != nil {
			a.log.Debug("closing the connection to the host", "err", err)
		}
	}
	a.plugin, a.host, a.events = nil, nil, nil
}

// launchEngine starts the next generation of the agent's engine and records
// its identity. The generation is a row before the process exists, so that the
// mark in its environment can always be traced.
func (a *agent) launchEngine(ctx context.Context) error {
	if err := a.sweepOrphans(ctx); err != nil {
		return err
	}
	a.rec.Generation++
	a.rec.Engine, a.rec.Handle = store.Process{}, nil
	a.rec.GatewayURL = a.sup.gw.Load().homesURL()
	if err := a.save(ctx, nil); err != nil {
		return err
	}
	request, err := a.launchRequest(ctx)
	if err != nil {
		return err
	}
	c, cancel := short(ctx)
	defer cancel()
	answer, err := a.host.Launch(c, request)
	if err != nil {
		return hostError("launching the engine", err)
	}
	if f := answer.GetFailure(); f != nil {
		return failureError("launching the engine", f)
	}
	a.rec.Command = answer.GetCommand()
	if err := a.recordHandle(ctx, answer.GetHandle()); err != nil {
		return err
	}
	a.subscribe()
	return nil
}

// sweepOrphans ends what an earlier engine of this agent may have left: a
// process that carries the agent's mark while no engine is on record.
func (a *agent) sweepOrphans(ctx context.Context) error {
	if a.rec.Generation == 0 {
		return nil
	}
	survivors, err := process.Retire(ctx, identityOf(a.rec.Engine), &process.RetireOptions{Grace: stopGrace, Mark: a.ref + "/"})
	if err != nil {
		a.rec.Survivors = recordsOf(survivors)
		return err
	}
	return nil
}

func (a *agent) launchRequest(ctx context.Context) (*hostpb.LaunchRequest, error) {
	s := a.sup
	generation := a.rec.Generation
	caller, err := a.callerToken(ctx, generation)
	if err != nil {
		return nil, err
	}
	bearer, err := a.bearer(ctx, generation)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(s.cfg.Folders.RuntimeDir(s.session), engineSocket(a.ref))
	if err := folders.CheckSocketPath(socket); err != nil {
		return nil, err
	}
	mark := a.ref + "/" + strconv.FormatUint(generation, 10)
	env, err := codexhome.Secrets(s.snap, a.rec.Agent, s.cachedSession().Tainted, s.keys.Lookup)
	if err != nil {
		return nil, err
	}
	maps.Copy(env, map[string]string{
		"CODEX_HOME": a.rec.Home, process.MarkEnv: mark, codexhome.CallerTokenVar: caller, codexhome.RunVar: s.runID,
	})
	if bearer != "" {
		env[codexhome.BearerVar] = bearer
	}
	if a.jobID != "" {
		env[codexhome.JobVar] = a.jobID
	}
	for _, name := range engineEnvNames {
		if v := s.cfg.Getenv(name); v != "" {
			env[name] = v
		}
	}
	codex := s.cachedSession().Codex
	if dir := codexbin.HelperDir(codex.Path); dir != "" { // its sandbox helper, or it warns at every start
		env["PATH"] += string(filepath.ListSeparator) + dir
	}
	return &hostpb.LaunchRequest{
		Fence: a.fence(), AgentRef: a.ref, Generation: generation,
		EnginePath: codex.Path, EngineSha256: codex.SHA256, EngineStamp: codex.Stamp, EngineHome: a.rec.Home, Cwd: a.cwd(), Env: env,
		SocketPath: socket, SpoolDir: filepath.Join(a.dir(), "spool"), StderrPath: filepath.Join(a.evidenceDir(), a.stderrName()),
		EngineArgs: engineFlags(mark),
	}, nil
}

// engineSocket is the name of the socket on which the engines of an agent listen,
// one after the other: a new one takes the place of what a dead one left.
func engineSocket(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return "e" + hex.EncodeToString(sum[:4]) + ".sock"
}

// engineFlags are what an engine is told beside its home: a home is shared by
// all jobs of a role, the mark is one agent's alone.
func engineFlags(mark string) []string {
	return []string{
		"-c", fmt.Sprintf("shell_environment_policy.set.%s=%q", process.MarkEnv, mark),
		"-c", fmt.Sprintf("mcp_servers.%s.env.%s=%q", codexhome.MeshServer, process.MarkEnv, mark),
	}
}

// bearer returns what admits the engine at the gateway; nothing when Codex
// reaches the agent's route by itself.
func (a *agent) bearer(ctx context.Context, generation uint64) (string, error) {
	if r, err := a.sup.routeOf(&a.rec); err != nil || r.Direct() {
		return "", err
	}
	return a.sup.gw.Load().issue(ctx, a, generation)
}

// rehold makes the agent's present host the holder of its bearers.
func (a *agent) rehold(ctx context.Context) error {
	if g := a.sup.gw.Load(); g != nil {
		return g.rehold(ctx, a)
	}
	return nil
}

// callerToken returns the capability for the engine's MCP process. A job's is
// new with every engine; the root's lives in capabilities.json for the whole
// session, so that a resumed root keeps its identity.
func (a *agent) callerToken(ctx context.Context, generation uint64) (string, error) {
	if a.jobID == "" {
		return a.sup.rootToken(ctx, a.ref)
	}
	token, _, err := a.sup.mintToken(ctx, a.ref, capCaller, generation)
	return token, err
}

func (a *agent) recordHandle(ctx context.Context, h *hostpb.Handle) error {
	raw, err := proto.Marshal(h)
	if err != nil {
		return core.Errorf(core.KindRuntime, "keeping the handle of agent %s: %w", a.ref, err)
	}
	a.rec.Handle = raw
	a.rec.Engine = recordOf(fromProto(h.GetEngine()))
	if h.GetThreadId() != "" {
		a.rec.ThreadID = h.GetThreadId()
	}
	return a.save(ctx, nil)
}

// openThread opens the agent's thread in a fresh engine: a new one, or the one
// on record.
func (a *agent) openThread(ctx context.Context) (*hostpb.ThreadState, error) {
	w := a.sup.wayOf(a.rec.Agent)
	spec := &hostpb.ThreadSpec{
		Name: fmt.Sprintf("codex-mmo %s %s", a.sup.session, a.rec.Agent), Cwd: a.cwd(),
		Model: w.model, ModelProvider: w.provider, Effort: effort(a.effort()),
		ApprovalPolicy: a.role.ApprovalPolicy,
	}
	if a.unconfined() {
		spec.Sandbox = profile.DangerFullAccess // a sandbox drops the permission profile, which this role has none of
	} else {
		spec.Permissions = a.permissionProfile()
	}
	switch source := a.forkedFrom(); {
	case a.rec.ThreadID != "":
		spec.Open = &hostpb.ThreadSpec_ResumeThreadId{ResumeThreadId: a.rec.ThreadID}
	case source != "":
		spec.Open = &hostpb.ThreadSpec_ForkThreadId{ForkThreadId: source}
	default:
		spec.Open = &hostpb.ThreadSpec_Start{Start: true}
	}
	window := a.sup.openWindow(a.rec.Agent)
	c, cancel := context.WithTimeout(ctx, controlTimeout(window))
	defer cancel()
	answer, err := a.host.Open(c, &hostpb.OpenRequest{Fence: a.fence(), Thread: spec, TimeoutMs: uint32(window.Milliseconds())})
	if err != nil {
		return nil, hostError("opening the thread", err)
	}
	if f := answer.GetFailure(); f != nil {
		return nil, failureError("opening the thread", f)
	}
	if err := a.checkEcho(spec, answer.GetEcho()); err != nil {
		return nil, err
	}
	a.rec.OpenedAt = a.sup.cfg.now().UTC()
	if err := a.recordHandle(ctx, answer.GetHandle()); err != nil {
		return nil, err
	}
	return answer.GetState(), a.started(ctx)
}

// forkedFrom is the thread that the agent's own begins as a copy of; none for
// most.
func (a *agent) forkedFrom() string {
	j, err := a.sup.cachedJob(a.jobID)
	if err != nil {
		return "" // the root
	}
	return j.ForkThreadID
}

// checkEcho refuses a thread that does not have the isolation that was asked
// for: Codex drops a permission profile without a word in some cases.
func (a *agent) checkEcho(want *hostpb.ThreadSpec, got *hostpb.Echo) error {
	type echo struct{ what, want, got string }
	isolation := echo{"permission profile", want.GetPermissions(), got.GetPermissionProfile()}
	if want.GetSandbox() != "" {
		isolation = echo{"sandbox", "dangerFullAccess", got.GetSandboxType()}
	}
	for _, c := range []echo{
		isolation,
		{"approval policy", want.GetApprovalPolicy(), got.GetApprovalPolicy()},
		{"working folder", want.GetCwd(), got.GetCwd()},
		{"model", want.GetModel(), got.GetModel()},
	} {
		if c.want != c.got {
			return core.Errorf(core.KindAppServer, "Codex opened the thread of agent %s with %s %q instead of %q; it was stopped before its first turn",
				a.rec.Agent, c.what, c.got, c.want).WithRemedy("run `codex-mmo doctor` and report the Codex version")
		}
	}
	return nil
}

// started publishes that the thread is open.
func (a *agent) started(ctx context.Context) error {
	now := a.sup.cfg.now().UTC()
	if a.jobID != "" {
		return a.sup.updateJob(ctx, a.jobID, func(_ *store.Tx, j *store.Job) error {
			if !j.Status.CanBecome(core.JobRunning) {
				return errUnchanged
			}
			j.Status = core.JobRunning
			if j.StartedAt == nil {
				j.StartedAt = &now
			}
			j.LastProgressAt = &now
			return nil
		})
	}
	return a.sup.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
		a.sup.bindRoot(rec, a.rec.ThreadID)
		if rec.Status != core.SessionStarting {
			return nil
		}
		rec.Status = core.SessionRunning
		if rec.StartedAt == nil {
			rec.StartedAt = &now
		}
		return nil
	})
}

// effort is what a thread is told: a model that does not reason is told nothing.
func effort(level string) string {
	if level == "none" {
		return ""
	}
	return level
}

func (a *agent) cwd() string {
	if a.jobID != "" {
		if j, err := a.sup.cachedJob(a.jobID); err == nil {
			return j.Cwd
		}
	}
	return a.sup.cachedSession().Workspace
}

// unconfined reports whether the agent's thread has no sandbox at all: its role
// has none, and neither its job nor the command line asked for less.
func (a *agent) unconfined() bool {
	if a.role.Permissions != profile.DangerFullAccess {
		return false
	}
	if a.jobID == "" {
		asked := a.sup.cachedSession().SandboxMode
		return asked == "" || asked == profile.DangerFullAccess
	}
	j, err := a.sup.cachedJob(a.jobID)
	return err == nil && j.Mode == admission.ModeWorkspace
}

// permissionProfile is the sandbox of the agent's thread: a job writes when it
// was asked to, in a working tree of its own; the root writes when its role may.
func (a *agent) permissionProfile() string {
	writes := a.role.Permissions == profile.WorkspaceWrite
	if a.jobID == "" {
		writes = writes && a.sup.cachedSession().SandboxMode != profile.ReadOnly
	} else {
		j, err := a.sup.cachedJob(a.jobID)
		writes = writes && err == nil && j.Mode == admission.ModeWorkspace
	}
	if writes {
		return codexhome.ProfileWrite
	}
	return codexhome.ProfileRead
}

func (a *agent) stderrName() string {
	if a.jobID == "" {
		return "root-stderr.log"
	}
	return "stderr.log"
}

// hostError wraps the failure of a call to a host plugin.
func hostError(doing string, err error) error {
	return hostCallError{core.Errorf(core.KindAppServer, "%s: the host did not answer: %w", doing, err)}
}

// hostCallError is a call that a host did not answer. What it asked for may or
// may not have happened.
type hostCallError struct{ error }

func (e hostCallError) Unwrap() error { return e.error }

// failureError turns a failure that a host reported into an error.
func failureError(doing string, f *basepb.Failure) error {
	return &core.Error{Kind: core.KindAppServer, Message: fmt.Sprintf("%s: %s (%s)", doing, f.GetMessage(), f.GetKind()), Reason: f.GetKind(), Err: errReported}
}

// errReported marks errors that the host itself reported: it is alive.
var errReported = errors.New("")
