package supervisor

import (
	"context"
	"errors"
	"io"
	"io/fs"
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
)

// CreateInput says what session to make.
type CreateInput struct {
	Folders   folders.Folders
	Profile   string // id or folder
	Bundled   fs.FS  // the bundled profiles
	Workspace string // a folder inside a git repository
	Prompt    string // may be empty in an interactive session
	Kind      string // interactive, noninteractive
	Build     string
	Getenv    func(string) string
	Now       time.Time
	Random    io.Reader
}

// maxPromptRunes bounds the root's first input, in code points.
const maxPromptRunes = 200_000

// Create checks everything that a session needs and then records it as
// `starting`, with its run, its root's agent run and first input, in one
// transaction. When it fails, nothing is left that a later command would see.
func Create(ctx context.Context, in *CreateInput) (*store.Session, error) {
	workspace, err := checkWorkspace(in.Workspace)
	if err != nil {
		return nil, err
	}
	empty := strings.TrimSpace(in.Prompt) == ""
	if empty && in.Kind != kindInteractive || !utf8.ValidString(in.Prompt) || utf8.RuneCountInString(in.Prompt) > maxPromptRunes {
		return nil, core.Errorf(core.KindValue, "the prompt must be 1 to %d characters of valid UTF-8", maxPromptRunes).
			WithRemedy(`say what to do: codex-mmo exec PROFILE "prompt"`)
	}
	if err := in.Folders.Prepare(); err != nil {
		return nil, err
	}
	for _, root := range []string{in.Folders.Config, in.Folders.State, in.Folders.Runtime} {
		if within(root, workspace) {
			return nil, core.Errorf(core.KindValue, "workspace %s holds our own folder %s: what an agent may write must not hold it", workspace, root).
				WithRemedy("name the folder of one project with --cwd")
		}
	}
	snap, err := profile.Compile(ctx, &profile.CompileInput{Name: in.Profile, Bundled: in.Bundled, ConfigDir: in.Folders.Config})
	if err != nil {
		return nil, err
	}
	codex, err := pinCodex(ctx, in)
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
	rec := draftSession(in, snap, id, workspace)
	rec.Codex, rec.Binary = codex, binary
	if err := record(ctx, in, snap, rec); err != nil {
		return nil, errors.Join(err, os.RemoveAll(in.Folders.SessionDir(id)))
	}
	return rec, nil
}

// within reports whether path lies in dir, or is it. Both are absolute.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
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
func pinCodex(ctx context.Context, in *CreateInput) (store.CodexPin, error) {
	path, err := codexbin.Find(in.Getenv, "", codexbin.CacheDirs(in.Getenv))
	if err != nil {
		return store.CodexPin{}, err
	}
	pin, err := codexbin.Gate(ctx, path, &codexbin.GateOptions{CacheDir: filepath.Join(in.Folders.State, "codex")})
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

func draftSession(in *CreateInput, snap *profile.Snapshot, id, workspace string) *store.Session {
	now := in.Now.UTC()
	return &store.Session{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, SessionID: id,
		ProfileID: snap.ProfileID, ProfileVersion: snap.ProfileVersion, SnapshotHash: snap.Hash, GatewayHash: snap.GatewayHash,
		Kind: in.Kind, Workspace: workspace, RootAgent: snap.RootAgent, RootAgentRef: core.NewAgentRef(in.Random),
		Status: core.SessionStarting, CurrentRunID: core.NewRunID(in.Random), RunSequence: 1, CreatedAt: now, LastActiveAt: now,
	}
}

// record publishes the session's files and then the rows that name them.
func record(ctx context.Context, in *CreateInput, snap *profile.Snapshot, rec *store.Session) error {
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
	return st.Update(ctx, func(tx *store.Tx) error {
		err := tx.Audit(&store.Audit{
			At: rec.CreatedAt, Event: "run_started", SessionID: rec.SessionID, RunID: rec.CurrentRunID, Caller: "operator",
			Details: map[string]any{
				"profile": rec.ProfileID, "snapshot_hash": rec.SnapshotHash, "codex_version": rec.Codex.Version,
				"codex_verdict": rec.Codex.Verdict, "prompt_sha256": rec.RootPrompt.SHA256,
			},
		})
		if err != nil {
			return err
		}
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
		return putAgentRun(tx, &agentDraft{
			session: rec.SessionID, ref: rec.RootAgentRef, role: snap.Agents[snap.RootAgent],
			home: homeDir(dir, snap.RootAgent), input: core.NewInputID(in.Random), text: in.Prompt, now: rec.CreatedAt,
		})
	})
}

// agentDraft is an agent run to be, with the first input of its thread.
type agentDraft struct {
	session, ref, jobID string
	role                profile.Agent
	home                string
	input, text         string // no text: the thread waits for a person
	now                 time.Time
}

func putAgentRun(tx *store.Tx, d *agentDraft) error {
	err := tx.PutAgentRun(&store.AgentRun{
		SchemaVersion: store.SchemaVersion, PackageVersion: store.StatePackage, AgentRef: d.ref, SessionID: d.session,
		JobID: d.jobID, Agent: d.role.ID, Model: d.role.Model, Route: d.role.Route, Home: d.home, EvidenceComplete: true,
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
