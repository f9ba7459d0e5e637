package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// CodexVersion is the Codex that tests run on. It is the version that
// `make codex` fetches; a test compares the two.
const CodexVersion = "0.149.0"

// CodexVersions are all that were reviewed, CodexVersion first; `make codex-all`
// fetches them. A test compares them, too.
var CodexVersions = []string{CodexVersion, "0.171.0"}

// buildTimeout bounds one go build, which may start with an empty cache.
const buildTimeout = 10 * time.Minute

// Codex returns the absolute path of the pinned Codex's native binary, links
// resolved, so that it finds its helpers beside it. The test fails when
// `make codex` has not been run.
func Codex(t testing.TB) string {
	t.Helper()
	return CodexOf(t, CodexVersion)
}

// CodexOf is Codex for one of CodexVersions.
func CodexOf(t testing.TB, version string) string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), "codex-mmo", "codex", version)
	if _, err := os.Stat(filepath.Join(dir, "checked")); err != nil {
		t.Fatalf("the pinned Codex %s is not in the cache: %v; run `make codex-all`", version, err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "codex"))
	if err != nil {
		t.Fatalf("the pinned Codex %s is damaged: %v; remove %s and run `make codex-all`", version, err, dir)
	}
	return path
}

// cacheDir is where `make codex` puts things: the same on every system.
func cacheDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatalf("no home folder: %v; set HOME", err)
	}
	return filepath.Join(home, ".cache")
}

// built is the outcome of the one build of a test process.
var built struct {
	once sync.Once
	path string
	err  error
}

// Binary returns the path of codex-mmo, built from the tree that the test
// belongs to, once per test process. It lies in the tree's bin folder, where
// test processes share it, so that only the first of them links it. A test that runs with the race detector gets
// a binary that does so too: its reports go to the logs of the processes, which
// AssertLogsClean reads.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() { built.path, built.err = build() })
	if built.err != nil {
		t.Fatalf("building codex-mmo: %v", built.err)
	}
	return built.path
}

func build() (path string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, flags := filepath.Join(root, "bin", "test"), []string(nil)
	if raceDetector { // beside the other, so that neither kind of test links anew
		dir, flags = dir+"-race", []string{"-race"}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // closing gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("waiting for another build: %w", err)
	}
	path = filepath.Join(dir, "codex-mmo")
	// go build renames a changed binary into place, so a process that runs
	// the old one keeps it.
	if _, err := goCommand(root, slices.Concat([]string{"build"}, flags, []string{"-o", path, "./cmd/codex-mmo"})...); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o700)
}

// ModuleRoot returns the folder of the go.mod that the test belongs to.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	return root
}

func moduleRoot() (string, error) {
	out, err := goCommand("", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	if out == "" || out == os.DevNull {
		return "", errors.New("not inside a Go module")
	}
	return filepath.Dir(out), nil
}

// goCommand runs the go command in dir and returns its trimmed output.
func goCommand(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
