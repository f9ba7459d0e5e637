package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// playSupervise is `codex-mmo supervise SESSION [MODE]` in the session's folder.
// As supervisor it notes the start in the file "started" and ends with the exit
// code on the same line of the file "exits"; "abandoned" there means: with a
// keeper of its own, as a crash ends it.
func playSupervise(session string, mode []string) error {
	secrets, err := ReadSecrets()
	if err != nil {
		return err
	}
	f := folders.Folders{State: os.Getenv("MMO_STATE_HOME")}
	cfg := &KeeperConfig{
		Folders: f, SessionID: session, Executable: testBinary(), Env: []string{"MMO_STATE_HOME=" + f.State},
		Secrets: secrets, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if len(mode) == 0 || mode[0] == ArgAdopt {
		cfg.Adopt = len(mode) > 0
		return Keep(context.Background(), cfg)
	}
	started, err := store.OpenLog("started")
	if err != nil {
		return err
	}
	err = started.Append(fmt.Sprintf("%s key=%s starter=%v", mode[0], secrets["key"], !starter(os.Getenv).Zero()))
	if err := errors.Join(err, started.Close()); err != nil {
		return err
	}
	lines, err := os.ReadFile("started")
	if err != nil {
		return err
	}
	exits, err := os.ReadFile("exits")
	if err != nil {
		return err
	}
	exit := strings.Split(strings.TrimSpace(string(exits)), "\n")[strings.Count(string(lines), "\n")-1]
	if exit == "abandoned" {
		return playAbandoned(cfg)
	}
	code, err := strconv.Atoi(exit)
	if err != nil {
		return err
	}
	return exitCode(code)
}

// playAbandoned is a supervisor that replaced its keeper and crashes. It leaves
// the keeper's identity in the file "keeper".
func playAbandoned(cfg *KeeperConfig) error {
	s := supervisorOf(cfg)
	go func() { _ = s.replaceKeeper() }() // ends with the process
	<-s.hub.next()
	if err := store.WriteJSON("keeper", recordOf(s.keeperIdentity())); err != nil {
		return err
	}
	return exitCode(2)
}

// next is closed at the first event.
func (h *hub) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) > 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return h.changed
}

func testBinary() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// keeping prepares a session's folder and what a keeper of it is started with.
func keeping(t *testing.T, exits ...string) *KeeperConfig {
	t.Helper()
	f := folders.Folders{State: testkit.PrivateDir(t)}
	dir := f.SessionDir("s1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "exits"), []byte(strings.Join(exits, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return &KeeperConfig{
		Folders: f, SessionID: "s1", Executable: testBinary(), Env: []string{"MMO_STATE_HOME=" + f.State},
		Secrets: map[string]string{"key": "value"}, Log: slog.New(slog.DiscardHandler),
	}
}

// supervisorOf is as much of a supervisor as has to do with its keeper.
func supervisorOf(cfg *KeeperConfig) *Supervisor {
	env := map[string]string{"MMO_STATE_HOME": cfg.Folders.State}
	s := &Supervisor{
		cfg:     &Config{Folders: cfg.Folders, Secrets: cfg.Secrets, Getenv: func(name string) string { return env[name] }},
		session: cfg.SessionID, sess: &store.Session{Binary: store.BinaryPin{Path: cfg.Executable}},
		log: cfg.Log, hub: newHub(time.Now),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// starts returns what the supervisors of a session noted.
func starts(t *testing.T, cfg *KeeperConfig) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(cfg.Folders.SessionDir(cfg.SessionID), "started"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(raw)) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	return list
}

const oneStart = "--supervisor key=value starter=true"

// TestKeep: a supervisor that crashes is started again; one that says why it
// left is not.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		exits []string
		want  int // supervisors started
	}{
		{"ended", []string{"0"}, 1},
		{"another one has the session", []string{"10"}, 1},
		{"told to leave", []string{"11"}, 1},
		{"taken over", []string{"12"}, 1},
		{"crashed twice", []string{"2", "1", "0"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := keeping(t, tt.exits...)
			if err := Keep(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.Repeat([]string{oneStart}, tt.want), starts(t, cfg)); diff != "" {
				t.Errorf("supervisors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeepWhenNothingStarts: a supervisor that can't be started is tried again.
func TestKeepWhenNothingStarts(t *testing.T) {
	t.Parallel()
	cfg := keeping(t, "0")
	cfg.Executable = filepath.Join(cfg.Folders.State, "codex-mmo")
	// The first failure is what brings the executable back.
	cfg.Log = slog.New(slog.NewTextHandler(writer(func() error { return os.Symlink(testBinary(), cfg.Executable) }), nil))
	if err := Keep(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{oneStart}, starts(t, cfg)); diff != "" {
		t.Errorf("supervisors (-want +got):\n%s", diff)
	}
}

// writer is an io.Writer that acts at each write.
type writer func() error

func (w writer) Write(b []byte) (int, error) { return len(b), w() }

// TestCrashBudget: the pause doubles up to 5 s, ten crashes within two minutes
// are the last, and one that worked for longer than that forgives those before.
func TestCrashBudget(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return begin.Add(d) }

	var c crashes
	var pauses []time.Duration
	for i := range 9 {
		pause, spent := c.add(after(time.Duration(i)*time.Second), after(time.Duration(i)*time.Second))
		if spent {
			t.Fatalf("crash %d was the last", i+1)
		}
		pauses = append(pauses, pause)
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := []time.Duration{ms(50), ms(100), ms(200), ms(400), ms(800), ms(1600), ms(3200), ms(5000), ms(5000)}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if _, spent := c.add(after(10*time.Second), after(11*time.Second)); !spent {
		t.Error("the tenth crash within two minutes is not the last")
	}

	var slow crashes
	for i := range 100 {
		at := after(time.Duration(i) * 14 * time.Second) // never ten within two minutes
		if _, spent := slow.add(at, at); spent {
			t.Fatalf("crash %d, one every 14 s, was the last", i+1)
		}
	}
	if pause, spent := c.add(after(0), after(121*time.Second)); spent || pause != 50*time.Millisecond {
		t.Errorf("after two good minutes: pause %v, spent %v; want 50ms, false", pause, spent)
	}
}

// TestAdoptingKeeperLearnsTheOutcome: a keeper that a supervisor started starts
// no other one when that supervisor left on purpose.
func TestAdoptingKeeperLearnsTheOutcome(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"ended": errEnded, "detached": errDetach, "taken over": errTakenOver} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := keeping(t)
			s := supervisorOf(cfg)
			done := make(chan error, 1)
			go func() { done <- s.replaceKeeper() }()
			testkit.Await(t, s.hub.next(), "the keeper")
			keeper := s.keeperIdentity()
			s.end(cause)
			if err := testkit.Await(t, done, "the end of the watch"); err != nil {
				t.Error(err)
			}
			testkit.AwaitGone(t, keeper)
			if got := starts(t, cfg); got != nil {
				t.Errorf("supervisors %q, want none", got)
			}
		})
	}
}

// TestAdoptingKeeperReplacesACrashedSupervisor: the keeper that a supervisor
// started outlives it and starts the next one.
func TestAdoptingKeeperReplacesACrashedSupervisor(t *testing.T) {
	t.Parallel()
	cfg := keeping(t, "abandoned", "0")
	child, err := startSelf(cfg, nil, ArgSupervisor)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, child.Done(), "the supervisor's crash")
	var keeper store.Process
	if err := store.ReadJSON(filepath.Join(cfg.Folders.SessionDir("s1"), "keeper"), &keeper); err != nil {
		t.Fatal(err)
	}
	testkit.AwaitGone(t, identityOf(keeper))
	if diff := cmp.Diff([]string{oneStart, oneStart}, starts(t, cfg)); diff != "" {
		t.Errorf("supervisors (-want +got):\n%s", diff)
	}
}

// TestKeeperIsReplacedEachTime: however often the keeper dies, there is another.
func TestKeeperIsReplacedEachTime(t *testing.T) {
	t.Parallel()
	cfg := keeping(t)
	s := supervisorOf(cfg)
	watched := make(chan struct{})
	go func() { defer close(watched); s.watchKeeper() }()
	var seen []process.Identity
	for seq := range uint64(3) {
		for {
			events, more := s.hub.after(seq)
			if len(events) > 0 {
				break
			}
			testkit.Await(t, more, "another keeper")
		}
		id := s.keeperIdentity()
		if !id.Alive() || slices.Contains(seen, id) {
			t.Fatalf("keeper %d is %+v, want a living one other than %+v", seq, id, seen)
		}
		seen = append(seen, id)
		if seq < 2 {
			testkit.Kill9(t, id)
		}
	}
	s.end(errEnded)
	testkit.Await(t, watched, "the end of the watch")
	testkit.AwaitGone(t, seen[2])
	if got := starts(t, cfg); got != nil {
		t.Errorf("supervisors %q, want none", got)
	}
}

// TestStarter: only the process that started us counts, and only as itself.
func TestStarter(t *testing.T) {
	t.Parallel()
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, env string
		want      process.Identity
	}{
		{"alive", fmt.Sprintf("%d %s", self.PID, self.StartToken), self},
		{"another process has the number", fmt.Sprintf("%d %s1", self.PID, self.StartToken), process.Identity{}},
		{"gone", fmt.Sprintf("%d %s", 1<<22, self.StartToken), process.Identity{}},
		{"no start token", strconv.Itoa(self.PID), process.Identity{}},
		{"nobody", "", process.Identity{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := starter(func(string) string { return tt.env }); got != tt.want {
				t.Errorf("starter = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestCredentialsForADeadProcess: a child that ends without reading does not
// hold up its starter, however long the credentials are.
func TestCredentialsForADeadProcess(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("true")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := keeping(t)
	cfg.Executable, cfg.Secrets = path, map[string]string{"key": strings.Repeat("x", maxSecrets-100)}
	done := make(chan error, 1)
	go func() {
		_, err := startSelf(cfg, nil)
		done <- err
	}()
	if err := testkit.Await(t, done, "the failure"); err == nil || !strings.Contains(err.Error(), "passing the credentials") {
		t.Errorf("startSelf = %v, want that the credentials could not be passed", err)
	}
}
