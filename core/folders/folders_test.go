package folders_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestResolve(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want folders.Folders
	}{
		"home": {
			map[string]string{"HOME": "/home/u"},
			folders.Folders{Config: "/home/u/.config/codex-mmo", State: "/home/u/.local/state/codex-mmo", Runtime: "/home/u/.local/state/codex-mmo/run"},
		},
		"XDG": {
			map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
			folders.Folders{Config: "/c/codex-mmo", State: "/s/codex-mmo", Runtime: "/r/codex-mmo"},
		},
		"relative XDG is ignored": {
			map[string]string{"HOME": "/home/u", "XDG_CONFIG_HOME": "c", "XDG_RUNTIME_DIR": "r"},
			folders.Folders{Config: "/home/u/.config/codex-mmo", State: "/home/u/.local/state/codex-mmo", Runtime: "/home/u/.local/state/codex-mmo/run"},
		},
		"own variables win": {
			map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_RUNTIME_DIR": "/r", "MMO_CONFIG_HOME": "/mc/", "MMO_STATE_HOME": "/ms", "MMO_RUNTIME_DIR": "/mr"},
			folders.Folders{Config: "/mc", State: "/ms", Runtime: "/mr"},
		},
	} {
		got, err := folders.Resolve(getenv(tc.env), 1000)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: Resolve = %v (-want +got):\n%s", name, err, diff)
		}
	}
	for name, tc := range map[string]struct {
		env  map[string]string
		kind core.Kind
		want string
	}{
		"no HOME":          {nil, core.KindOS, "HOME of user 1000 is \"\""},
		"relative HOME":    {map[string]string{"HOME": "u"}, core.KindOS, "set HOME, or MMO_CONFIG_HOME"},
		"relative config":  {map[string]string{"HOME": "/u", "MMO_CONFIG_HOME": "c"}, core.KindValue, "MMO_CONFIG_HOME is \"c\""},
		"relative state":   {map[string]string{"HOME": "/u", "MMO_STATE_HOME": "s"}, core.KindValue, "MMO_STATE_HOME is \"s\""},
		"relative runtime": {map[string]string{"HOME": "/u", "MMO_RUNTIME_DIR": "r"}, core.KindValue, "MMO_RUNTIME_DIR is \"r\""},
	} {
		_, err := folders.Resolve(getenv(tc.env), 1000)
		if core.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Resolve = %v, want a %s with %q", name, err, tc.kind, tc.want)
		}
	}
}

func TestPaths(t *testing.T) {
	f := folders.Folders{Config: "/c", State: "/s", Runtime: "/r"}
	for got, want := range map[string]string{
		f.Database():         "/s/state.db",
		f.SessionDir("x"):    "/s/sessions/x",
		f.JobDir("x"):        "/s/jobs/x",
		f.GatewayDir("x"):    "/s/gateways/x",
		f.RuntimeDir("x"):    "/r/2d711642b726",
		f.ControlSocket("x"): "/r/2d711642b726/control.sock",
	} {
		if got != want {
			t.Errorf("path = %s, want %s", got, want)
		}
	}
	if f.RuntimeDir("x") == f.RuntimeDir("x2") {
		t.Error("two sessions share a runtime folder")
	}
	if err := folders.CheckSocketPath("/" + strings.Repeat("a", 98)); err != nil {
		t.Errorf("CheckSocketPath of 99 bytes = %v, want nil", err)
	}
	err := folders.CheckSocketPath("/" + strings.Repeat("a", 99))
	if core.KindOf(err) != core.KindOS || !strings.Contains(err.Error(), "has 100 bytes, more than 99") || !strings.Contains(err.Error(), "MMO_RUNTIME_DIR") {
		t.Errorf("CheckSocketPath of 100 bytes = %v, want the length and the variable", err)
	}
}

// rootsIn returns roots below a new private folder, not made yet.
func rootsIn(t *testing.T) (string, folders.Folders) {
	t.Helper()
	dir := testkit.PrivateDir(t)
	return dir, folders.Folders{
		Config: filepath.Join(dir, "deep", "config"), State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "state", "run"),
	}
}

func TestPrepare(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o277} {
		_, f := rootsIn(t)
		old := syscall.Umask(umask)
		err := f.Prepare()
		syscall.Umask(old)
		if umask == 0o277 && os.Geteuid() != 0 {
			continue // the folder between is not ours to open up
		}
		if err != nil {
			t.Fatalf("Prepare at umask %o: %v", umask, err)
		}
		for _, path := range []string{f.Config, f.State, f.Runtime} {
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != fs.ModeDir|0o700 {
				t.Errorf("umask %o: %s is %v, %v, want a folder of mode 700", umask, path, info, err)
			}
		}
		if err := f.Prepare(); err != nil {
			t.Errorf("Prepare again: %v", err)
		}
	}
	_, f := rootsIn(t)
	if err := os.Mkdir(f.State, 0o755); err != nil { // readable by others: closed
		t.Fatal(err)
	}
	if err := f.Prepare(); err != nil {
		t.Fatalf("Prepare of a readable folder: %v", err)
	}
	if info, err := os.Lstat(f.State); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a readable folder became %v, %v, want mode 700", info, err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	mkdir := func(path string, mode fs.FileMode) error {
		return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)) // past the umask
	}
	for name, tc := range map[string]struct {
		spoil func(dir string, f *folders.Folders) error
		want  []string
	}{
		"symbolic link": {func(dir string, f *folders.Folders) error {
			return errors.Join(mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink(filepath.Join(dir, "real"), f.State))
		}, []string{"state is refused: it is a symbolic link", "MMO_STATE_HOME"}},
		"file":           {func(_ string, f *folders.Folders) error { return os.WriteFile(f.State, nil, 0o600) }, []string{"it is not a folder", "MMO_STATE_HOME"}},
		"group-writable": {func(_ string, f *folders.Folders) error { return mkdir(f.State, 0o770) }, []string{"group- or world-writable", "MMO_STATE_HOME"}},
		"world-writable": {func(_ string, f *folders.Folders) error { return mkdir(f.State, 0o702) }, []string{"group- or world-writable", "MMO_STATE_HOME"}},
		"below an open folder": {func(dir string, f *folders.Folders) error {
			f.Config = filepath.Join(dir, "open", "more", "config")
			return errors.Join(mkdir(filepath.Join(dir, "open"), 0o777), os.Mkdir(filepath.Join(dir, "open", "more"), 0o700))
		}, []string{"open, which is world-writable", "MMO_CONFIG_HOME"}},
		"below a sticky folder": {func(dir string, f *folders.Folders) error {
			f.Runtime = filepath.Join(dir, "sticky", "run")
			return mkdir(filepath.Join(dir, "sticky"), 0o777|fs.ModeSticky)
		}, []string{"sticky, which is world-writable", "MMO_RUNTIME_DIR"}},
		"below an open folder by a link": {func(dir string, f *folders.Folders) error {
			f.Config = filepath.Join(dir, "link", "config")
			return errors.Join(mkdir(filepath.Join(dir, "open"), 0o777), os.Symlink(filepath.Join(dir, "open"), filepath.Join(dir, "link")))
		}, []string{"open, which is world-writable", "MMO_CONFIG_HOME"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, f := rootsIn(t)
			if err := tc.spoil(dir, &f); err != nil {
				t.Fatal(err)
			}
			err := f.Prepare()
			for _, want := range tc.want {
				if core.KindOf(err) != core.KindOS || !strings.Contains(err.Error(), want) {
					t.Errorf("Prepare = %v, want an OSError with %q", err, want)
				}
			}
		})
	}
	if _, f := rootsIn(t); os.Geteuid() == 0 { // only root can give a folder away
		if err := errors.Join(os.Mkdir(f.State, 0o700), os.Chown(f.State, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if err := f.Prepare(); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("Prepare of another's folder = %v, want it refused", err)
		}
	}
}

func TestMakeDir(t *testing.T) {
	dir := testkit.PrivateDir(t)
	path := filepath.Join(dir, "a", "b", "c")
	old := syscall.Umask(0o777)
	err := folders.MakeDir(path)
	syscall.Umask(old)
	if err != nil {
		t.Fatalf("MakeDir: %v", err)
	}
	for p := path; p != dir; p = filepath.Dir(p) {
		if info, err := os.Lstat(p); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s is %v, %v, want a folder of mode 700", p, info, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{link, filepath.Join(link, "below")} {
		if err := folders.MakeDir(bad); core.KindOf(err) != core.KindOS || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("MakeDir(%s) = %v, want the link refused", bad, err)
		}
	}
}
