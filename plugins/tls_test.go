package plugins_test

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/plugins"
)

func TestWriteTLSIsPrivateAtAnyUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	if err := plugins.WriteTLS(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plugins.CAFile, plugins.ServerCertFile, plugins.ServerKeyFile, plugins.ClientCertFile, plugins.ClientKeyFile} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("mode of %s = %v, want 0600", name, info.Mode())
		}
	}
	if err := plugins.WriteTLS(dir, time.Now()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second WriteTLS = %v, want that the files exist", err)
	}
}

func TestTLSRefusesLinksAndPipes(t *testing.T) {
	for name, replace := range map[string]func(path, target string) error{
		"symlink": func(path, target string) error { return os.Symlink(target, path) },
		"FIFO":    func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"nothing": func(string, string) error { return nil },
		"no PEM":  func(path, _ string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := plugins.WriteTLS(dir, time.Now()); err != nil {
				t.Fatal(err)
			}
			path, target := filepath.Join(dir, plugins.CAFile), filepath.Join(dir, "target")
			if err := errors.Join(os.Rename(path, target), replace(path, target)); err != nil {
				t.Fatal(err)
			}
			if _, err := plugins.ServerTLS(dir); err == nil {
				t.Error("ServerTLS took it")
			}
			if _, err := plugins.ClientTLS(dir); err == nil {
				t.Error("ClientTLS took it")
			}
		})
	}
}

// Both sides of one instance understand each other; nobody else does.
func TestTLSJoinsOneInstanceOnly(t *testing.T) {
	own, other := instance(t), instance(t)
	server := serverTLS(t, own)
	tests := []struct {
		name   string
		client *tls.Config
		want   bool
	}{
		{"its client", clientTLS(t, own), true},
		{"another instance's client", clientTLS(t, other), false},
		{"no certificate", &tls.Config{RootCAs: clientTLS(t, own).RootCAs, ServerName: clientTLS(t, own).ServerName}, false},
		{"the server's own certificate", &tls.Config{
			RootCAs: clientTLS(t, own).RootCAs, ServerName: clientTLS(t, own).ServerName, Certificates: server.Certificates,
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			serverErr, clientErr := shakeHands(server, tt.client)
			if got := serverErr == nil && clientErr == nil; got != tt.want {
				t.Errorf("handshake = %v (%v, %v), want %v", got, serverErr, clientErr, tt.want)
			}
		})
	}
}

// shakeHands lets the server greet the client and returns what each made of
// it. (A client learns of a refusal when it reads.)
func shakeHands(server, client *tls.Config) (serverErr, clientErr error) {
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := tls.Server(a, server).Write([]byte("x"))
		done <- err
		_ = a.Close()
	}()
	_, clientErr = io.ReadFull(tls.Client(b, client), make([]byte, 1))
	_ = b.Close()
	return <-done, clientErr
}

func instance(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := plugins.WriteTLS(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func serverTLS(t *testing.T, dir string) *tls.Config {
	t.Helper()
	config, err := plugins.ServerTLS(dir)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func clientTLS(t *testing.T, dir string) *tls.Config {
	t.Helper()
	config, err := plugins.ClientTLS(dir)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
