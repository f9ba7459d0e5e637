package process_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// What is left in the group is ended, and so is what left the session.
//
// Spec: R044 R045 (the processes)
func TestRetireSweepsDescendants(t *testing.T) {
	leader, line := start(t, "tree", nil)
	below := identities(t, line)
	if got, err := process.Descendants(leader.Identity()); err != nil || len(got) != 2 {
		t.Fatalf("Descendants = %v, %v, want %v", got, err, below)
	}
	survivors, err := process.Retire(t.Context(), leader.Identity(), nil)
	if err != nil || len(survivors) != 0 {
		t.Errorf("Retire = %v, %v", survivors, err)
	}
	assertGone(t, append(below, leader.Identity())...)
}

// The group and the marked remains of a leader that has exited are ended.
//
// Spec: A062 (second half)
func TestRetireSweepsTheOrphansOfAnExitedLeader(t *testing.T) {
	const mark = "ar_test0orphan/3"
	leader, line := start(t, "gone", func(s *process.Spec) { s.Env = append(s.Env, process.MarkEnv+"="+mark) })
	testkit.Await(t, leader.Done(), "the leader's end")
	grouped, left := identities(t, line)[0], identities(t, line)[1]
	marked, _ := start(t, "stubborn", func(s *process.Spec) { s.Env = append(s.Env, process.MarkEnv+"="+mark) })

	if survivors, err := process.Retire(t.Context(), leader.Identity(), nil); err != nil || len(survivors) != 0 {
		t.Errorf("Retire = %v, %v", survivors, err)
	}
	assertGone(t, grouped)
	if !marked.Identity().Alive() {
		t.Error("a marked process was ended though no mark was given")
	}

	opts := &process.RetireOptions{Mark: "ar_test0orphan"}
	if survivors, err := process.Retire(t.Context(), leader.Identity(), opts); err != nil || len(survivors) != 0 {
		t.Errorf("Retire with mark = %v, %v", survivors, err)
	}
	assertGone(t, marked.Identity())
	// It left the session, has no mark and its parent is gone: nothing ties it
	// to the leader. A host finds it as subreaper.
	if !left.Alive() {
		t.Errorf("%v was ended though nothing ties it to the leader", left)
	}
}

// A subreaper finds also what left session and environment.
//
// Spec: R044 (the processes)
func TestSubreaperFindsWhatLeftSessionAndMark(t *testing.T) {
	host, line := start(t, "subreaper", nil)
	testkit.Await(t, host.Done(), "the host's end")
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[2] != "0" || fields[3] != "<nil>" {
		t.Fatalf("host printed %q, want two pids, 0 survivors and no error", line)
	}
	for _, text := range fields[:2] {
		var pid int
		if _, err := fmt.Sscan(text, &pid); err != nil {
			t.Fatal(err)
		}
		if id, err := process.Lookup(pid); err == nil && id.Alive() {
			t.Errorf("%v is alive", id)
		}
	}
}

// The first SIGTERM starts a drain, the second ends it: no SIGKILL is needed.
func TestRetireIsPoliteFirst(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	child, _ := start(t, "draining", func(s *process.Spec) { s.ExtraFiles = []*os.File{write} })
	_ = write.Close()
	table := &tableThatSeesTheDrain{ProcessTable: process.SystemTable(), draining: read}
	opts := &process.RetireOptions{Grace: 10 * time.Second, Table: table}
	if _, err := process.Retire(t.Context(), child.Identity(), opts); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, child.Done(), "the child's end")
	if code := child.State().ExitCode(); code != 0 {
		t.Errorf("exit code = %d, want 0: it was killed", code)
	}
}

// tableThatSeesTheDrain lets the first grace end when the process drains, not
// when the time is over.
type tableThatSeesTheDrain struct {
	process.ProcessTable
	draining *os.File // ends when the process drains
	once     sync.Once
}

func (t *tableThatSeesTheDrain) Wait(ctx context.Context, ids []process.Identity) error {
	first := false
	t.once.Do(func() { first = true })
	if first {
		_, err := io.ReadAll(t.draining)
		return err
	}
	return t.ProcessTable.Wait(ctx, ids)
}

func TestRetireSweepsThoughItsContextIsDone(t *testing.T) {
	child, _ := start(t, "stubborn", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, err := process.Retire(ctx, child.Identity(), &process.RetireOptions{Grace: time.Hour}); err != nil {
		t.Fatal(err)
	}
	assertGone(t, child.Identity())
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Retire took %v", took)
	}
}

func TestRetireLeavesOthersAlone(t *testing.T) {
	other, _ := start(t, "sleep", func(s *process.Spec) { s.Env = append(s.Env, process.MarkEnv+"=ar_test0x12/1") })
	child, _ := start(t, "sleep", nil)
	wrong := child.Identity()
	wrong.StartToken += "0"
	for _, id := range []process.Identity{wrong, {PID: child.Identity().PID}, {}} {
		if survivors, err := process.Retire(t.Context(), id, &process.RetireOptions{Mark: "ar_test0x1"}); err != nil || len(survivors) != 0 {
			t.Errorf("Retire(%+v) = %v, %v", id, survivors, err)
		}
	}
	if !child.Identity().Alive() || !other.Identity().Alive() {
		t.Error("a process was ended that the identity and the mark do not name")
	}
}

func TestRetireRefusesItsOwnLine(t *testing.T) {
	own, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Retire(t.Context(), own, nil); core.KindOf(err) != core.KindValue {
		t.Errorf("Retire(self) = %v, want a ValueError", err)
	}
}

// A process that would not die is reported by name, never as success.
//
// Spec: R046
func TestRetireReportsSurvivors(t *testing.T) {
	leader, line := start(t, "tree", nil)
	below := identities(t, line)
	table := &tableWithUnkillable{ProcessTable: process.SystemTable(), unkillable: process.Entry{
		Identity: process.Identity{
			PID: 1 << 22, StartToken: "9999999999", BootID: leader.Identity().BootID, Command: "undead",
			PGID: leader.Identity().PID, SID: leader.Identity().PID,
		},
		PPID: leader.Identity().PID, State: 'D',
	}}
	began := time.Now()
	survivors, err := process.Retire(t.Context(), leader.Identity(), &process.RetireOptions{
		KillWait: time.Second, Table: table,
	})
	if diff := cmp.Diff([]process.Identity{table.unkillable.Identity}, survivors); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}
	if core.KindOf(err) != core.KindRuntime ||
		!strings.Contains(err.Error(), "process groups did not terminate: undead (pid 4194304)") {
		t.Errorf("Retire = %v", err)
	}
	if took := time.Since(began); took >= 3*time.Second {
		t.Errorf("Retire took %v, want less than 3 s", took)
	}
	want := []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL}
	if diff := cmp.Diff(want, table.signals(leader.Identity().PID)); diff != "" {
		t.Errorf("signals to the leader (-want +got):\n%s", diff)
	}
	assertGone(t, append(below, leader.Identity())...)
}

// tableWithUnkillable has one process more than there is, which no signal ends.
type tableWithUnkillable struct {
	process.ProcessTable
	unkillable process.Entry

	mu   sync.Mutex
	sent map[int][]syscall.Signal // pid -> signals in order
}

func (t *tableWithUnkillable) Entries() ([]process.Entry, error) {
	entries, err := t.ProcessTable.Entries()
	return append(entries, t.unkillable), err
}

func (t *tableWithUnkillable) Signal(id process.Identity, sig syscall.Signal) error {
	t.mu.Lock()
	if t.sent == nil {
		t.sent = make(map[int][]syscall.Signal)
	}
	t.sent[id.PID] = append(t.sent[id.PID], sig)
	t.mu.Unlock()
	if id.PID == t.unkillable.PID {
		return nil
	}
	return t.ProcessTable.Signal(id, sig)
}

func (t *tableWithUnkillable) Wait(ctx context.Context, ids []process.Identity) error {
	for _, id := range ids {
		if id.PID == t.unkillable.PID {
			<-ctx.Done()
		}
	}
	return t.ProcessTable.Wait(ctx, ids)
}

func (t *tableWithUnkillable) signals(pid int) []syscall.Signal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent[pid]
}
