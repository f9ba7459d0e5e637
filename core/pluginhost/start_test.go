package pluginhost_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

func TestStartedPluginIsDescribed(t *testing.T) {
	spec := specOf(t, "host")
	p := start(t, spec)
	d := p.Describe()
	if d.GetName() != "echo-host" || d.GetVersion() != "0.1.0" || d.GetIsolation() != "none" {
		t.Errorf("Describe = %v", d)
	}
	for _, list := range []struct {
		name      string
		got, want []string
	}{
		{"kinds", d.GetKinds(), []string{"host"}},
		{"drivers", d.GetDrivers(), []string{"echo"}},
		{"capabilities", d.GetCapabilities(), []string{"resume", "survives_controller"}},
		{"secret names", d.GetSecretNames(), []string{"ECHO_KEY"}},
	} {
		if diff := cmp.Diff(list.want, list.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", list.name, diff)
		}
	}
	id := p.Identity()
	told := d.GetProcess()
	if int(told.GetPid()) != id.PID || told.GetStartToken() != id.StartToken || told.GetBootId() != id.BootID ||
		int(told.GetPgid()) != id.PGID || int(told.GetSid()) != id.SID {
		t.Errorf("Describe.process = %v, want %+v", told, id)
	}
	if id.SID != id.PID {
		t.Errorf("session %d, want its own %d", id.SID, id.PID)
	}
	if len(d.GetInstanceId()) != 32 {
		t.Errorf("instance id %q, want 32 hex digits", d.GetInstanceId())
	}
	ref := p.Ref()
	if filepath.Dir(ref.Socket) != spec.Dir || ref.Protocol != 1 || ref.Dir != spec.Dir || ref.Kind != "host" {
		t.Errorf("Ref = %+v", ref)
	}
	assertModes(t, spec.Dir)
}

// assertModes checks that an instance folder is private.
func assertModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case d.IsDir():
			want = 0o700
		case info.Mode().Type() == fs.ModeSocket:
			return nil // the folder guards it
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The environment is the caller's, nothing of ours.
func TestPluginInheritsNothing(t *testing.T) {
	t.Setenv("MMO_SECRET_OF_THE_STARTER", "x")
	spec := specOf(t, "host")
	p := start(t, spec)
	env, err := process.Environ(p.Identity().PID)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{roleEnv, "CODEX_MMO_PLUGIN", "MMO_PLUGIN_DIR", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR"} {
		if _, ok := env[name]; ok {
			names = append(names, name)
			delete(env, name)
		}
	}
	if len(names) != 7 || len(env) != 0 {
		t.Errorf("environment has of ours %v, and besides %v", names, env)
	}
	if stdin, err := os.Readlink(filepath.Join("/proc", pidText(p.Identity()), "fd", "0")); err != nil || stdin != os.DevNull {
		t.Errorf("stdin = %q, %v, want %s", stdin, err, os.DevNull)
	}
}

// Every way to be no plugin is a refusal in time, with the plugin's own words,
// and leaves neither process nor folder.
//
// Spec: A067
func TestStartRefuses(t *testing.T) {
	tests := []struct {
		role string
		want []string
	}{
		{"exit 23", []string{"deterministic-startup-failure", "because of the weather"}},
		{"next version", []string{"Plugin version: 2"}},
		{"net/rpc", []string{"unsupported plugin protocol"}},
		{"foreign socket", []string{"/run/foreign.sock"}},
		{"no socket", []string{"names no socket"}},
		{"bad certificate", []string{"server cert"}},
		{"certificate", []string{"names no socket"}},
		{"long line", []string{"xxxx"}},
		{"flood", []string{"flood flood"}},
		{"orphan keeps stdout", []string{"one line and away"}},
		{"panicking host", []string{"no words for it"}},
		{"gateway", []string{"first call failed"}},
		{"unknown", []string{"Failed to read any lines"}},
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			spec := specOf(t, tt.role)
			r := &recorder{}
			began := time.Now()
			p, err := pluginhost.Start(t.Context(), spec, r.record)
			if err == nil {
				retire(t, p)
				t.Fatal("Start succeeded")
			}
			if !errors.Is(err, pluginhost.ErrRefused) || core.KindOf(err) != core.KindUnavailable {
				t.Errorf("Start = %v (%s), want an UnavailableError that wraps ErrRefused", err, core.KindOf(err))
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Start = %v, want %q in it", err, want)
				}
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("refused after %v", took)
			}
			assertAbandoned(t, spec, r)
		})
	}
}

// assertAbandoned checks that a failed start left nothing.
func assertAbandoned(t *testing.T, spec *pluginhost.Spec, r *recorder) {
	t.Helper()
	if len(r.ids) != 1 {
		t.Fatalf("recorded %d identities, want 1", len(r.ids))
	}
	if _, err := process.Lookup(r.ids[0].PID); !errors.Is(err, process.ErrGone) {
		t.Errorf("Lookup = %v, want an error that wraps ErrGone: not reaped", err)
	}
	entries, err := process.SystemTable().Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.SID == r.ids[0].PID && e.State != 'Z' {
			t.Errorf("%v is left of its session", e.Identity)
		}
	}
	if _, err := os.Lstat(spec.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the instance folder is left: %v", err)
	}
}

// A process that says nothing is refused when the time is over.
func TestStartIsBounded(t *testing.T) {
	for _, role := range []string{"hang", "silent host"} {
		t.Run(role, func(t *testing.T) {
			spec := specOf(t, role)
			spec.Timeout = 500 * time.Millisecond
			r := &recorder{}
			_, err := pluginhost.Start(t.Context(), spec, r.record)
			if !errors.Is(err, pluginhost.ErrRefused) || !strings.Contains(err.Error(), "not ready within 500ms") {
				t.Errorf("Start = %v", err)
			}
			assertAbandoned(t, spec, r)
		})
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	spec := specOf(t, "hang")
	r := &recorder{}
	left := errors.New("the caller left")
	_, err := pluginhost.Start(ctx, spec, func(id process.Identity) error {
		cancel(left)
		return r.record(id)
	})
	if !errors.Is(err, left) || errors.Is(err, pluginhost.ErrRefused) {
		t.Errorf("Start = %v, want the cause of the context", err)
	}
	assertAbandoned(t, spec, r)
}

// When the identity can't be recorded, the process is ended and reaped and the
// error comes out.
//
// Spec: A035 A068 A086
func TestStartIsAbandonedWhenRecordingFails(t *testing.T) {
	spec := specOf(t, "host")
	r := &recorder{}
	disk := core.Errorf(core.KindOS, "disk is full")
	_, err := pluginhost.Start(t.Context(), spec, func(id process.Identity) error {
		if !id.Alive() {
			t.Errorf("%v is recorded and not alive", id)
		}
		_ = r.record(id)
		return disk
	})
	if !errors.Is(err, disk) || core.KindOf(err) != core.KindOS {
		t.Errorf("Start = %v (%s), want what recording said", err, core.KindOf(err))
	}
	assertAbandoned(t, spec, r)
}

func TestStartChecksItsSpec(t *testing.T) {
	tests := []struct {
		name string
		edit func(*pluginhost.Spec)
		kind core.Kind
		want string
	}{
		{"kind", func(s *pluginhost.Spec) { s.Kind = "toaster" }, core.KindValue, "no kind of plugin"},
		{"relative path", func(s *pluginhost.Spec) { s.Path = "plugin" }, core.KindValue, "no absolute path"},
		{"relative folder", func(s *pluginhost.Spec) { s.Dir = "i" }, core.KindValue, "no absolute path"},
		{"long folder", func(s *pluginhost.Spec) { s.Dir = "/" + strings.Repeat("x", 82) }, core.KindValue, "would have 100 bytes, at most 99 work; set MMO_RUNTIME_DIR"},
		{"folder in use", func(s *pluginhost.Spec) { s.Dir = filepath.Dir(s.Path) }, core.KindOS, "in use"},
		{"no parent", func(s *pluginhost.Spec) { s.Dir = "/none/i" }, core.KindOS, "no such file"},
		{"digest", func(s *pluginhost.Spec) { s.SHA256 = strings.Repeat("0", 64) }, core.KindPermission, "pinned is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := specOf(t, "host")
			tt.edit(spec)
			_, err := pluginhost.Start(t.Context(), spec, func(process.Identity) error {
				t.Error("a process was made")
				return nil
			})
			if core.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v (%s), want a %s with %q", err, core.KindOf(err), tt.kind, tt.want)
			}
		})
	}
}

// What a plugin prints goes to its log and never stops it.
func TestPluginOutputGoesToItsLog(t *testing.T) {
	spec := specOf(t, "printing host")
	p := start(t, spec)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := hostpb.NewHostClient(p.Conn()).Read(ctx, &hostpb.ReadRequest{}); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(spec.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(log), "p"), 3*4*64<<10; got < want {
		t.Errorf("the log holds %d bytes of what was printed, want %d", got, want)
	}
}

// SIGTERM ends a plugin in order, also while a stream is open.
func TestPluginEndsOnTerm(t *testing.T) {
	spec := specOf(t, "host")
	p := start(t, spec)
	stream, err := hostpb.NewHostClient(p.Conn()).Events(t.Context(), &hostpb.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	h, err := process.Open(p.Identity())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if err := h.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, p.Done(), "the plugin's end")
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	log, err := os.ReadFile(spec.LogPath)
	if err != nil || !strings.Contains(string(log), "drained") {
		t.Errorf("log = %q, %v, want that it drained", log, err)
	}
	if _, err := os.Lstat(p.Ref().Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A second SIGTERM cuts the draining short.
func TestPluginEndsAtTheSecondTerm(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	spec := specOf(t, "draining host")
	spec.ExtraFiles = []*os.File{write}
	p := start(t, spec)
	_ = write.Close()
	h, err := process.Open(p.Identity())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if err := h.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(read); err != nil { // the draining has begun
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Fatal("it ended at the first SIGTERM")
	default:
	}
	if err := h.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, p.Done(), "the plugin's end")
}

// A plugin that ends itself still answers the call that made it end.
func TestPluginEndsItself(t *testing.T) {
	p := start(t, specOf(t, "stopping host"))
	answer, err := hostpb.NewHostClient(p.Conn()).Stop(t.Context(), &hostpb.StopRequest{})
	if err != nil || !answer.GetEngineWasRunning() {
		t.Errorf("Stop = %v, %v", answer, err)
	}
	testkit.Await(t, p.Done(), "the plugin's end")
}

func TestRetireEndsDescendantsAndFolder(t *testing.T) {
	spec := specOf(t, "parent host")
	p := start(t, spec)
	answer, err := hostpb.NewHostClient(p.Conn()).Inspect(t.Context(), &hostpb.InspectRequest{})
	if err != nil {
		t.Fatal(err)
	}
	engine := answer.GetHandle().GetEngine()
	var below []process.Identity
	for _, pid := range []int32{engine.GetPid(), engine.GetPgid()} {
		id, err := process.Lookup(int(pid))
		if err != nil {
			t.Fatal(err)
		}
		below = append(below, id)
	}
	retire(t, p)
	for _, id := range append(below, p.Identity()) {
		if id.Alive() {
			t.Errorf("%v is alive", id)
		}
	}
	if _, err := os.Lstat(spec.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the instance folder is left: %v", err)
	}
}
