package control_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// abandon leaves a dead socket at path, as a killed supervisor does.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRetiringServerKeepsItsReplacement replaces a server's socket and then
// retires the server: the path still is the replacement's, which answers. The
// owner removes its own. (control_socket_ready is the supervisor's record.)
//
// Spec: R086
func TestRetiringServerKeepsItsReplacement(t *testing.T) {
	path := controltest.SocketPath(t)
	old := controltest.Start(t, path, &controltest.Handler{})
	if err := os.Remove(path); err != nil { // the old one counts as dead
		t.Fatal(err)
	}
	replacement := controltest.Start(t, path, &controltest.Handler{
		OnHello: func(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
			return &control.HelloResponse{Epoch: 2}, nil
		},
	})
	before := inode(t, path)
	if err := old.Shutdown(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if after := inode(t, path); after != before {
		t.Errorf("inode = %d after the old server retired, want %d as before", after, before)
	}
	if hello, err := control.Dial(path, nil).Hello(bounded(t)); err != nil || hello.Epoch != 2 {
		t.Errorf("Hello = %+v, %v, want the replacement's answer", hello, err)
	}
	if err := replacement.Shutdown(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the owner left its socket behind: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder holds %v, %v, want nothing", entries, err)
	}
}

func TestListenReplacesOnlyTheDead(t *testing.T) {
	path := controltest.SocketPath(t)
	abandon(t, path)
	controltest.Start(t, path, &controltest.Handler{})
	if _, err := control.Listen(path); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "another supervisor answers") {
		t.Errorf("Listen over a live socket = %v, want a refusal", err)
	}

	file := controltest.SocketPath(t)
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(file); core.KindOf(err) != core.KindOS {
		t.Errorf("Listen over a file = %v, want a refusal", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "x" {
		t.Errorf("the file is %q, %v, want it untouched", data, err)
	}

	link := controltest.SocketPath(t)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(link); core.KindOf(err) != core.KindOS {
		t.Errorf("Listen over a symlink = %v, want a refusal", err)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := controltest.SocketPath(t)
	controltest.Start(t, path, &controltest.Handler{})
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode = %v, %v, want a socket with 0600 at any umask", info.Mode(), err)
	}
}

func TestListenRefusesBadFolders(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"open to the group": func(dir string) error { return os.Chmod(dir, 0o750) },
		"open to all":       func(dir string) error { return os.Chmod(dir, 0o707) },
		"missing":           os.Remove,
		"a symlink": func(dir string) error {
			if err := os.Rename(dir, dir+"x"); err != nil {
				return err
			}
			return os.Symlink(dir+"x", dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := controltest.SocketPath(t)
			dir := filepath.Dir(path)
			t.Cleanup(func() { _ = os.RemoveAll(dir + "x") })
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			if l, err := control.Listen(path); core.KindOf(err) != core.KindOS {
				t.Errorf("Listen = %v, %v, want an OSError", l, err)
			}
		})
	}
	long := filepath.Join(filepath.Dir(controltest.SocketPath(t)), strings.Repeat("x", 100))
	_, err := control.Listen(long)
	if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "MMO_RUNTIME_DIR") || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("Listen at a long path = %v, want a ValueError with the length and the variable", err)
	}
}
