package testkit_test

import (
	"bufio"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// childEnv makes the test binary an echo of lines, to have a process that
// visibly works or stands still.
const childEnv = "TESTKIT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a running echo.
type child struct {
	id  process.Identity
	in  io.Writer
	out *bufio.Reader
}

// startChild starts an echo with the mark, and ends it with the test.
func startChild(t *testing.T, mark string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1", process.MarkEnv+"="+mark)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	c := &child{in: in, out: bufio.NewReader(out)}
	c.echo(t, "up") // exec is through, so the environment is its own
	if c.id, err = process.Lookup(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *child) echo(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		t.Fatal(err)
	}
	got, err := c.out.ReadString('\n')
	if err != nil || got != line+"\n" {
		t.Fatalf("echo of %q = %q, %v", line, got, err)
	}
}

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failuresOf runs check on a recorder and returns what it complained about.
func failuresOf(t *testing.T, check func(t testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.failures
}

func TestPrivateDir(t *testing.T) {
	var dir string
	t.Run("inner", func(t *testing.T) {
		dir = testkit.PrivateDir(t)
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || real != dir {
			t.Errorf("EvalSymlinks(%s) = %s, %v, want the same", dir, real, err)
		}
		for _, folder := range []string{dir, filepath.Dir(dir)} {
			info, err := os.Stat(folder)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("mode of %s = %v, %v, want 0700", folder, info.Mode(), err)
			}
		}
		// What a read-only folder holds must not stay behind either.
		locked := filepath.Join(dir, "locked")
		if err := os.MkdirAll(filepath.Join(locked, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(locked, 0o500); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s after the test: %v, want it gone", dir, err)
	}
}

func TestPlaceEnv(t *testing.T) {
	p := testkit.NewPlace(t)
	env := map[string]string{}
	for _, entry := range p.Env(t, "MMO_STATE_HOME=/elsewhere") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	want := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": p.Home, "LANG": "C.UTF-8",
		"MMO_CONFIG_HOME": p.Config, "MMO_STATE_HOME": "/elsewhere", "MMO_RUNTIME_DIR": p.Runtime,
		"MMO_CODEX_BIN": testkit.Codex(t),
	}
	if len(env) != len(want) {
		t.Errorf("Env has %d names, want %d: %v", len(env), len(want), env)
	}
	for name, value := range want {
		if env[name] != value {
			t.Errorf("Env: %s = %q, want %q", name, env[name], value)
		}
	}
}

func TestCodexIsThePinnedOne(t *testing.T) {
	path := testkit.Codex(t)
	place := testkit.NewPlace(t)
	cmd := exec.Command(path, "--version")
	cmd.Env = place.Env(t)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), testkit.CodexVersion) {
		t.Errorf("%s --version = %q, %v, want %s in it", path, out, err, testkit.CodexVersion)
	}
	pins, err := os.ReadFile(filepath.Join(testkit.ModuleRoot(t), ".tools", "fetchcodex", "pins.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := "preferred"
	for _, version := range testkit.CodexVersions[1:] {
		all += fmt.Sprintf(", %q", version)
	}
	for _, want := range []string{fmt.Sprintf("const preferred = %q\n", testkit.CodexVersion), "var versions = []string{" + all + "}\n"} {
		if !strings.Contains(string(pins), want) {
			t.Errorf(".tools/fetchcodex/pins.go doesn't say %s`make codex-all` and the tests differ", want)
		}
	}
	if testkit.CodexVersions[0] != testkit.CodexVersion {
		t.Errorf("the first of %v is not %s", testkit.CodexVersions, testkit.CodexVersion)
	}
}

func TestCodexMissing(t *testing.T) {
	empty := testkit.PrivateDir(t)
	t.Setenv("XDG_CACHE_HOME", empty)
	got := failuresOf(t, func(t testing.TB) { testkit.Codex(t) })
	if len(got) != 1 || !strings.Contains(got[0], "run `make codex-all`") {
		t.Errorf("Codex with an empty cache failed with %q, want one failure with the remedy", got)
	}
}

// TestRaceBinary: the product is built with the race detector exactly when its
// test is.
func TestRaceBinary(t *testing.T) {
	own, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test binary tells nothing of its build")
	}
	product, err := buildinfo.ReadFile(testkit.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := raceSetting(product), raceSetting(own); got != want {
		t.Errorf("the product is built with -race=%q, its test with %q", got, want)
	}
}

func raceSetting(info *debug.BuildInfo) string {
	for _, setting := range info.Settings {
		if setting.Key == "-race" {
			return setting.Value
		}
	}
	return ""
}

func TestBinary(t *testing.T) {
	if first, second := testkit.Binary(t), testkit.Binary(t); first != second {
		t.Errorf("Binary = %s, then %s, want one build", first, second)
	}
	out, err := testkit.NewPlace(t).Command(t, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "codex-mmo ") {
		t.Errorf("codex-mmo version = %q, %v", out, err)
	}
}

func TestSignals(t *testing.T) {
	c := startChild(t, "signals/1")
	testkit.Stop(t, c.id)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.id.PID))
	if err != nil || !strings.Contains(string(stat), ") T ") {
		t.Errorf("stat after Stop = %q, %v, want state T", stat, err)
	}
	testkit.Cont(t, c.id)
	c.echo(t, "again")
	testkit.Kill9(t, c.id)
	if c.id.Alive() {
		t.Error("process lives after Kill9")
	}
	testkit.AwaitGone(t, c.id)
}

func TestAwait(t *testing.T) {
	events := make(chan int, 1)
	events <- 7
	if got := testkit.Await(t, events, "a number"); got != 7 {
		t.Errorf("Await = %d, want 7", got)
	}
	close(events)
	if got := testkit.Await(t, events, "the end"); got != 0 {
		t.Errorf("Await on a closed channel = %d, want 0", got)
	}
}

func TestFaultSQL(t *testing.T) {
	tests := []struct {
		fault testkit.Fault
		want  string
	}{
		{
			testkit.Fault{Name: "f1", Table: "jobs", On: "INSERT"},
			"CREATE TRIGGER f1 BEFORE INSERT ON jobs FOR EACH ROW BEGIN SELECT RAISE(ABORT, 'injected fault'); END",
		},
		{
			testkit.Fault{Name: "f2", Table: "sessions", On: "UPDATE", When: "NEW.status = 'completed'", Message: "it's full"},
			"CREATE TRIGGER f2 BEFORE UPDATE ON sessions FOR EACH ROW WHEN NEW.status = 'completed' BEGIN SELECT RAISE(ABORT, 'it''s full'); END",
		},
	}
	for _, test := range tests {
		if got := test.fault.SQL(); got != test.want {
			t.Errorf("SQL() = %s\nwant    %s", got, test.want)
		}
	}
	if got, want := tests[0].fault.Disarm(), "DROP TRIGGER IF EXISTS f1"; got != want {
		t.Errorf("Disarm() = %s, want %s", got, want)
	}
}
