package testkit

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// commandTimeout bounds one run of codex-mmo in a test.
const commandTimeout = 2 * time.Minute

// Place is a user's machine for one test: a clean home and every root of ours
// in a private folder, so that nothing of the developer's own reaches the test
// and tests never meet. All fields are absolute paths of existing folders of
// mode 0700.
type Place struct {
	Dir       string // holds all the others
	Home      string
	Config    string
	State     string
	Runtime   string // short, for sockets
	Workspace string
}

// NewPlace makes a Place that goes when the test ends.
func NewPlace(t testing.TB) *Place {
	t.Helper()
	dir := PrivateDir(t)
	p := &Place{
		Dir:       dir,
		Home:      filepath.Join(dir, "home"),
		Config:    filepath.Join(dir, "config"),
		State:     filepath.Join(dir, "state"),
		Runtime:   filepath.Join(dir, "r"),
		Workspace: filepath.Join(dir, "workspace"),
	}
	for _, folder := range []string{p.Home, p.Config, p.State, p.Runtime, p.Workspace} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatalf("making a place: %v", err)
		}
	}
	return p
}

// Env returns the whole environment of a process in this place, as NAME=value.
// It holds the test's PATH, the pinned Codex and nothing else of the test's
// own environment; extra comes last and wins.
func (p *Place) Env(t testing.TB, extra ...string) []string {
	t.Helper()
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + p.Home,
		"LANG=C.UTF-8",
		"MMO_CONFIG_HOME=" + p.Config,
		"MMO_STATE_HOME=" + p.State,
		"MMO_RUNTIME_DIR=" + p.Runtime,
		"MMO_CODEX_BIN=" + Codex(t),
	}
	return append(env, extra...)
}

// Command prepares a run of our binary in the workspace of this place. It is
// killed when the test ends or after two minutes.
func (p *Place) Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Dir = p.Workspace
	cmd.Env = p.Env(t)
	cmd.WaitDelay = 2 * time.Second // a child may keep the output pipe open
	return cmd
}
