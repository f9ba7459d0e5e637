package process_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// Spec: A036
func TestChildIsReapedInTheBackground(t *testing.T) {
	child, _ := start(t, "exit", nil)
	testkit.Await(t, child.Done(), "the child's end")
	if state := child.State(); state == nil || state.ExitCode() != 0 {
		t.Errorf("State = %v, want exit code 0", state)
	}
	if _, err := process.Lookup(child.Identity().PID); !errors.Is(err, process.ErrGone) {
		t.Errorf("Lookup = %v, want an error that wraps ErrGone: it is not reaped", err)
	}
	if err := child.Kill(); err != nil {
		t.Errorf("Kill after the end = %v, want nil", err)
	}
}

func TestStartLeadsItsOwnSession(t *testing.T) {
	child, _ := start(t, "sleep", func(s *process.Spec) { s.Argv0 = "/somewhere/mmo-agent" })
	id := child.Identity()
	if id.SID != id.PID || id.PGID != id.PID {
		t.Errorf("Identity = %+v, want pid = pgid = sid", id)
	}
	if id.Command != "mmo-agent" {
		t.Errorf("Command = %q, want %q", id.Command, "mmo-agent")
	}
	if child.State() != nil {
		t.Error("State before the end is not nil")
	}
}

func TestStartPassesNothingThatIsNotNamed(t *testing.T) {
	leak, err := unix.Dup(0) // as a parent leaks one: open over exec
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leak) }()
	t.Setenv("MMO_SECRET_OF_THE_STARTER", "x")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()

	_, files := start(t, "files", func(s *process.Spec) { s.ExtraFiles = []*os.File{null} })
	if files != "0 1 2 3" {
		t.Errorf("open files = %q, want 0 1 2 3", files)
	}
	if _, env := start(t, "environment", nil); env != roleEnv+"=environment" {
		t.Errorf("environment = %q", env)
	}
}

func TestStartedProgramFindsItself(t *testing.T) {
	want := self(t) + " <nil>"
	if _, got := start(t, "executable", nil); got != want {
		t.Errorf("os.Executable in the child = %q, want %q", got, want)
	}
}

func TestStartChecksTheDigest(t *testing.T) {
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	start(t, "exit", func(s *process.Spec) { s.SHA256 = strings.ToUpper(digest) })

	wrong := strings.Repeat("0", 64)
	_, err = process.Start(process.Spec{Path: self(t), SHA256: wrong})
	if core.KindOf(err) != core.KindPermission || !strings.Contains(err.Error(), digest) || !strings.Contains(err.Error(), wrong) {
		t.Errorf("Start with another digest = %v, want a PermissionError that names both", err)
	}
}

// TestStartTrustsAnUnchangedFile: a file that was found to have its digest is
// read again only once it has changed.
func TestStartTrustsAnUnchangedFile(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "binary")
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	never := strings.Repeat("0", 64) // only a start that does not read the file passes
	trusted := process.Spec{Path: path, SHA256: never, Stamp: process.Stamp(info), Args: []string{"-test.run=^$"}}
	child, err := process.Start(trusted)
	if err != nil {
		t.Fatalf("Start of an unchanged file: %v", err)
	}
	<-child.Done()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Start(trusted); core.KindOf(err) != core.KindPermission {
		t.Errorf("Start of a changed file = %v, want a PermissionError", err)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := testkit.PrivateDir(t)
	script := filepath.Join(dir, "script")
	fifo := filepath.Join(dir, "fifo")
	link := filepath.Join(dir, "link")
	if err := errors.Join(
		os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700),
		unix.Mkfifo(fifo, 0o700),
		os.Symlink(filepath.Join(dir, "target"), link),
	); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		spec process.Spec
		want string
	}{
		{"a script", process.Spec{Path: script}, "it is a script"},
		{"a FIFO", process.Spec{Path: fifo}, "not a regular file"},
		{"a folder", process.Spec{Path: dir}, "not a regular file"},
		{"nothing", process.Spec{Path: filepath.Join(dir, "none")}, "no such file"},
		{"a working folder that is not there", process.Spec{Path: self(t), Dir: filepath.Join(dir, "none")}, "working folder"},
		{"a log behind a symlink", process.Spec{Path: self(t), StderrPath: link}, "open log"},
		{"a log that is a FIFO", process.Spec{Path: self(t), StderrPath: fifo}, "open log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			child, err := process.Start(tt.spec)
			if err == nil {
				_ = child.Kill()
				t.Fatal("Start succeeded")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestStartLogsPrivately(t *testing.T) {
	log := filepath.Join(testkit.PrivateDir(t), "log")
	if err := os.WriteFile(log, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	child, _ := start(t, "exit", func(s *process.Spec) {
		s.Env = []string{roleEnv + "=unknown", "GOTRACEBACK=none"}
		s.StderrPath = log
	})
	testkit.Await(t, child.Done(), "the child's end")
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the log = %v, want 0600", info.Mode().Perm())
	}
	if data, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(data), "before\n") {
		t.Errorf("log = %q, %v: what was there is gone", data, err)
	}
}
