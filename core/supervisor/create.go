package supervisor

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// CreateInput says what session to make.
type CreateInput struct {
	Folders      folders.Folders
	Profile      string            // id or folder; empty: the active one of the settings, unless Snapshot is given
	Snapshot     string            // hash of a kept snapshot, instead of a profile
	Bundled      fs.FS             // the bundled profiles
	Bindings     map[string]string // agent id -> model key, over what the profile says
	RouteFaults  map[string]string // route id -> kind of fault that the session is to find there
	Sandbox      string            // of the root, over what its role says; empty: as it says
	BudgetTokens int64             // of the whole tree, over what the profile says; 0: as it says
	BudgetUSD    float64           // likewise
	Workspace    string            // a folder inside a git repository
	Prompt       string            // may be empty in an interactive session
	Kind         string            // interactive, noninteractive, KindAmbient
	Build        string
	Getenv       func(string) string
	Now          time.Time
	Random       io.Reader
}

// maxPromptRunes bounds the root's first input, in code points.
const maxPromptRunes = 200_000

// Create checks everything that a session needs and then records it as
// `starting`, with its run, its root's agent run and first input, in one
// transaction. When it fails, nothing is left that a later command would see, or
// the record of a failed session, which the error names.
func Create(ctx context.Context, in *CreateInput) (*store.Session, error) {
	dir, err := checkWorkspace(in.Workspace)
	if err != nil {
		return nil, err
	}
	empty := strings.TrimSpace(in.Prompt) == ""
	if empty && in.Kind == kindNoninteractive || !utf8.ValidString(in.Prompt) || utf8.RuneCountInString(in.Prompt) > maxPromptRunes {
		return nil, core.Errorf(core.KindValue, "the prompt must be 1 to %d characters of valid UTF-8", maxPromptRunes).
			WithRemedy(`say what to do: codex-mmo exec PROFILE "prompt"`)
	}
	if err := in.Folders.Prepare(); err != nil {
		return nil, err
	}
	for _, root := range []string{in.Folders.Config, in.Folders.State, in.Folders.Runtime} {
		if workspace.Within(root, dir) {
			return nil, core.Errorf(core.KindValue, "workspace %s holds our own folder %s: what an agent may write must not hold it", dir, root).
				WithRemedy("name the folder of one project with --cwd")
		}
	}
	settings, err := profile.LoadSettings(in.Folders.Config)
	if err != nil {
		return nil, err
	}
	snap, err := team(ctx, in, settings)
	if err != nil {
		return nil, err
	}
	routes, err := routesOf(in, snap)
	if err != nil {
		return nil, err
	}
	codex, err := pinCodex(ctx, in, settings)
	if err != nil {
		return nil, err
	}
	id := core.NewSessionID(in.Now, snap.ProfileID, in.Random)
	if err := folders.CheckSocketPath(in.Folders.ControlSocket(id)); err != nil {
		return nil, err
	}
	binary, err := pinBinary(in.Folders.State, in.Build)
	if err != nil {
		return nil, err
	}
	if err := snap.Save(in.Folders.State); err != nil {
		return nil, err
	}
	rec := draftSession(in, snap, id, dir)
	rec.Codex, rec.Binary, rec.RouteAvailability = codex, binary, routes
	if rec.Budget, err = budgetOf(in, snap); err != nil {
		return nil, err
	}
	if in.Kind == KindAmbient {
		if rec.Client, err = selfRecord(); err != nil {
			return nil, err
		}
	}
	refused := checkSandbox(in.Sandbox, snap.Agents[snap.RootAgent])
	if err := record(ctx, in, snap, rec, refused); err != nil {
		if rec.Status == core.SessionFailed {
			return nil, err // it is on record, with why
		}
		return nil, errors.Join(err, os.RemoveAll(in.Folders.SessionDir(id)))
	}
	if refused != nil {
		refused.SessionID, refused.SessionStatus = rec.SessionID, rec.Status
		return nil, refused
	}
	return rec, nil
}

// Team is the team of a session to be.
func Team(ctx context.Context, in *CreateInput) (*profile.Snapshot, error) {
	settings, err := profile.LoadSettings(in.Folders.Config)
	if err != nil {
		return nil, err
	}
	return team(ctx, in, settings)
}

// team compiles the profile that was asked for, or reads the kept snapshot.
func team(ctx context.Context, in *CreateInput, settings *profile.Settings) (*profile.Snapshot, error) {
	if in.Snapshot == "" {
		name := in.Profile
		if name == "" {
			name = settings.Profile
		}
		if name == "" {
			return nil, core.Errorf(core.KindValue, "no profile was named, and none is active").
				WithRemedy("name one, or choose one with `codex-mmo profile use PROFILE`; `codex-mmo profile list` shows them")
		}
		return profile.Compile(ctx, &profile.CompileInput{
			Name: name, Bundled: in.Bundled, ConfigDir: in.Folders.Config, Bindings: in.Bindings,
		})
	}
	switch {
	case in.Profile != "":
		return nil, core.Errorf(core.KindValue, "a profile and a snapshot cannot be combined").WithRemedy("name one of them")
	case len(in.Bindings) > 0:
		return nil, core.Errorf(core.KindValue, "a snapshot and bindings cannot be combined: its models are part of it").
			WithRemedy("name the profile instead")
	}
	return profile.Load(in.Folders.State, in.Snapshot)
}

// routesOf says which of the team's routes can be used. The root's must be:
// without it there is no session.
func routesOf(in *CreateInput, snap *profile.Snapshot) (map[string]store.Availability, error) {
	if err := snap.CheckFaults(in.RouteFaults); err != nil {
		return nil, err
	}
	keys, err := profile.LoadCredentials(in.Folders.Config, in.Getenv)
	if err != nil {
		return nil, err
	}
	routes := availability(snap, keys, in.Getenv, in.RouteFaults)
	root := snap.Agents[snap.RootAgent]
	if r := routes[root.Route]; in.Kind != KindAmbient && !r.Available && r.Fault == "" {
		return nil, core.Errorf(core.KindRuntime, "the root %s of profile %s can't work: route %s: %s", root.ID, snap.ProfileID, root.Route, r.Reason).
			WithRemedy("`codex-mmo profile list` says what each profile needs; `codex-mmo demo` needs nothing")
	}
	return routes, nil
}

// checkSandbox refuses what the root's role does not have. It returns a
// *core.Error, for the session that is recorded as refused.
func checkSandbox(asked string, root profile.Agent) *core.Error {
	switch {
	case asked == "" || asked == root.Permissions || asked == profile.ReadOnly:
		return nil
	case root.Permissions == profile.ReadOnly && asked == profile.WorkspaceWrite:
		return core.Errorf(core.KindPermission, "the root %s is permanently read-only", root.ID).
			WithRemedy("leave out --sandbox, or use a profile whose root may write")
	}
	return core.Errorf(core.KindValue, "the root %s can't have sandbox %q: its role is %s", root.ID, asked, root.Permissions).
		WithRemedy("use %q or %q", profile.ReadOnly, profile.WorkspaceWrite)
}

// checkWorkspace returns the workspace's real path. It must be a folder inside
// a git repository: what agents do there is told apart by git.
func checkWorkspace(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", core.Errorf(core.KindNotFound, "workspace %s: %w", path, err).WithRemedy("name an existing folder with --cwd")
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", core.Errorf(core.KindValue, "workspace %s is no folder", abs).WithRemedy("name a folder with --cwd")
	}
	if _, err := exec.LookPath("git"); err != nil {
		return "", core.Errorf(core.KindOS, "git is not on PATH").WithRemedy("install git")
	}
	if slices.Contains(strings.Split(abs, string(filepath.Separator)), ".git") {
		return "", core.Errorf(core.KindValue, "workspace %s lies inside a .git folder", abs).WithRemedy("name the working tree with --cwd")
	}
	for dir := abs; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return abs, nil
		}
		if dir == filepath.Dir(dir) {
			return "", core.Errorf(core.KindValue, "workspace %s is not inside a git repository", abs).
				WithRemedy("run `git init` there, or name another folder with --cwd")
		}
	}
}

// pinCodex finds the Codex that the session will use for its whole life and
// lets the gate judge it.
func pinCodex(ctx context.Context, in *CreateInput, settings *profile.Settings) (store.CodexPin, error) {
	path, err := codexbin.Find(in.Getenv, settings.CodexBin, codexbin.CacheDirs(in.Getenv))
	if err != nil {
		return store.CodexPin{}, err
	}
	pin, err := codexbin.Gate(ctx, path, &codexbin.GateOptions{Policy: settings.CodexVersions, CacheDir: filepath.Join(in.Folders.State, "codex")})
	if err != nil {
		return store.CodexPin{}, err
	}
	return store.CodexPin{Path: pin.Path, SHA256: pin.SHA256, Stamp: pin.Stamp, Version: pin.Version, SchemaSHA256: pin.SchemaSHA256, Verdict: pin.Verdict}, nil
}

// pinBinary keeps the running build under its digest, so that an upgrade never
// strands a session.
func pinBinary(state, build string) (store.BinaryPin, error) {
	own, err := os.Executable()
	if err != nil {
		return store.BinaryPin{}, core.Errorf(core.KindOS, "finding the running build: %w", err)
	}
	digest, err := thisRuntime().digest()
	if err != nil {
		return store.BinaryPin{}, err
	}
	dir := filepath.Join(state, "bin", digest)
	pin := store.BinaryPin{Path: filepath.Join(dir, "codex-mmo"), SHA256: digest, Origin: thisRuntime().stamp, Build: build}
	if kept, err := digestFile(pin.Path); err != nil || kept != digest {
		if err := keepBinary(dir, own); err != nil {
			return pin, err
		}
	}
	info, err := os.Stat(pin.Path)
	if err != nil {
		return pin, core.Errorf(core.KindOS, "keeping the running build: %w", err)
	}
	pin.Stamp = process.Stamp(info)
	return pin, nil
}

func keepBinary(dir, own string) error {
	data, err := os.ReadFile(own)
	if err != nil {
		return core.Errorf(core.KindOS, "reading the running build: %w", err)
	}
	if err := folders.MakeDir(dir); err != nil {
		return err
	}
	if _, err := store.Publish(dir, "codex-mmo", data); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, "codex-mmo"), 0o500); err != nil {
		return core.Errorf(core.KindOS, "keeping the running build: %w", err)
	}
	return nil
}

func draftSession(in *CreateInput, snap *profile.Snapshot, id, dir string) *store.Session {
	now := in.Now.UTC()
	faults := in.RouteFaults
	if faults == nil {
		faults = map[string]string{}
	}
	return &store.Session{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, SessionID: id,
		ProfileID: snap.ProfileID, ProfileVersion: snap.ProfileVersion, SnapshotHash: snap.Hash, GatewayHash: snap.GatewayHash,
		Kind: in.Kind, Workspace: dir, RootAgent: snap.RootAgent, RootAgentRef: core.NewAgentRef(in.Random),
		Status: core.SessionStarting, CurrentRunID: core.NewRunID(in.Random), RunSequence: 1, CreatedAt: now, LastActiveAt: now,
		SandboxMode: in.Sandbox, RootMode: snap.Agents[snap.RootAgent].ExecutionMode, RouteFaults: faults, Bindings: snap.Bindings, Warnings: snap.Warnings,
	}
}

// record publishes the session's files and then the rows that name them. A
// session that is refused, or whose start can't be audited, is on record as
// failed.
func record(ctx context.Context, in *CreateInput, snap *profile.Snapshot, rec *store.Session, refused *core.Error) error {
	dir := in.Folders.SessionDir(rec.SessionID)
	if err := folders.MakeDir(dir); err != nil {
		return err
	}
	if strings.TrimSpace(in.Prompt) != "" {
		ref, err := store.Publish(dir, "prompt.txt", []byte(in.Prompt))
		if err != nil {
			return err
		}
		rec.RootPrompt = ref
	}
	st, err := store.Open(ctx, in.Folders.Database(), nil)
	if err != nil {
		return err
	}
	defer st.Close()
	draft := &agentDraft{
		session: rec.SessionID, ref: rec.RootAgentRef, role: snap.Agents[snap.RootAgent],
		home: homeDir(dir, snap.RootAgent), input: core.NewInputID(in.Random), text: harnessPrompt(in.Prompt, in.Kind, snap.Agents[snap.RootAgent]), now: rec.CreatedAt,
		elsewhere: rec.Kind == KindAmbient,
	}
	cause := admitAgain(ctx, in.reconciler(), rec.SessionID, func() error {
		return st.Update(ctx, func(tx *store.Tx) error {
			if refused == nil {
				if err := admitRoot(tx, rec, snap); err != nil {
					return err
				}
			}
			if err := auditStart(tx, rec); err != nil {
				return err
			}
			err := putStarting(tx, rec, draft)
			if err != nil || refused == nil {
				return err
			}
			return failUnstarted(tx, rec, refused, in.Now.UTC()) // nobody sees it as one that may be started
		})
	})
	if cause == nil || core.KindOf(cause) == core.KindAdmission {
		return cause // a session that was never admitted leaves no record
	}
	rec.Status, rec.Error = core.SessionStarting, ""
	err = st.Update(ctx, func(tx *store.Tx) error {
		if err := putStarting(tx, rec, draft); err != nil {
			return err
		}
		return failUnstarted(tx, rec, cause, in.Now.UTC())
	})
	if err != nil {
		rec.Status = core.SessionStarting // of which there is no row
		return errors.Join(cause, err)
	}
	named := core.Errorf(core.KindOf(cause), "session %s could not be started: %w", rec.SessionID, cause)
	named.SessionID, named.SessionStatus = rec.SessionID, rec.Status
	return named
}

func auditStart(tx *store.Tx, rec *store.Session) error {
	return tx.Audit(&store.Audit{
		At: rec.CreatedAt, Event: "run_started", SessionID: rec.SessionID, RunID: rec.CurrentRunID, Caller: "operator",
		Details: map[string]any{
			"profile": rec.ProfileID, "snapshot_hash": rec.SnapshotHash, "codex_version": rec.Codex.Version,
			"codex_verdict": rec.Codex.Verdict, "prompt_sha256": rec.RootPrompt.SHA256,
		},
	})
}

// putStarting writes the rows of a session that is about to start.
func putStarting(tx *store.Tx, rec *store.Session, root *agentDraft) error {
	if err := tx.PutSession(rec); err != nil {
		return err
	}
	run := store.Run{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, RunID: rec.CurrentRunID,
		SessionID: rec.SessionID, Sequence: 1, Kind: "initial", Status: rec.Status, CreatedAt: rec.CreatedAt,
	}
	if err := tx.InsertRun(&run); err != nil {
		return err
	}
	return putAgentRun(tx, root)
}

// reconciler is what sessions that are found dead are reconciled with.
func (in *CreateInput) reconciler() *Config {
	return &Config{Folders: in.Folders, Build: in.Build, Getenv: in.Getenv, Log: slog.New(slog.DiscardHandler), Random: in.Random}
}

// failUnstarted ends a session of which nothing was started.
func failUnstarted(tx *store.Tx, rec *store.Session, cause error, now time.Time) error {
	rec.Status, rec.Error = core.SessionFailed, cause.Error()
	rec.LastRunID, rec.CurrentRunID, rec.FinishedAt = rec.CurrentRunID, "", &now
	err := tx.Audit(&store.Audit{
		At: now, Event: "session_failed", SessionID: rec.SessionID, RunID: rec.LastRunID, Caller: "operator",
		Details: map[string]any{"error": rec.Error},
	})
	if err != nil {
		return err
	}
	root, err := tx.AgentRun(rec.RootAgentRef)
	if err != nil {
		return err
	}
	root.Retired = true // it never had a process
	if err := tx.PutAgentRun(root); err != nil {
		return err
	}
	return tx.PutSession(rec)
}

// agentDraft is an agent run to be, with the first input of its thread.
type agentDraft struct {
	session, ref, jobID string
	role                profile.Agent
	home                string
	input, text         string // no text: the thread waits for a person
	now                 time.Time
	elsewhere           bool // it lives in a client of its own: nothing is started for it
}

func putAgentRun(tx *store.Tx, d *agentDraft) error {
	err := tx.PutAgentRun(&store.AgentRun{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, AgentRef: d.ref, SessionID: d.session,
		JobID: d.jobID, Agent: d.role.ID, Model: d.role.Model, Route: d.role.Route, Home: d.home, EvidenceComplete: true,
		ApprovalPolicy: d.role.ApprovalPolicy, ExecutionMode: d.role.ExecutionMode, Retired: d.elsewhere,
	})
	if err != nil || strings.TrimSpace(d.text) == "" {
		return err
	}
	return tx.AppendInput(&store.Input{
		InputID: d.input, SessionID: d.session, AgentRef: d.ref, Origin: "task", Text: d.text,
		State: store.InputIntended, CreatedAt: d.now,
	})
}

func homeDir(sessionDir, agent string) string { return filepath.Join(sessionDir, "homes", agent) }
