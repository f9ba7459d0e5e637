package supervisor

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// playEngine is an engine that dies at once and leaves a child in its session,
// whose pid it prints. The child has an empty environment, as the file helper of
// Codex has.
func playEngine(part string) error {
	if part == "child" {
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGUSR1)
		fmt.Println("ready")
		<-never
		return nil
	}
	child := exec.Command(testBinary(), "engine", "child")
	child.Env = []string{}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	return nil
}

// deadEngine returns an engine that is dead and the child that it left.
func deadEngine(t *testing.T) (engine, left process.Identity) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	child, err := process.Start(process.Spec{Path: testBinary(), Args: []string{"engine", "leader"}, Stdout: write})
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("the engine printed %q: %v", line, err)
	}
	testkit.Await(t, child.Done(), "the engine's end")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	left, err = process.Lookup(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left.Alive() {
			testkit.Kill9(t, left)
		}
	})
	if left.SID != child.Identity().PID {
		t.Fatalf("what the engine left is in session %d, want %d", left.SID, child.Identity().PID)
	}
	return child.Identity(), left
}

// TestDeadRootLeavesNothing: a root that may not be recovered leaves a suspended
// session, which nobody supervises. What its dead engine left is gone by then,
// also a child that no mark and no parent tie to it.
func TestDeadRootLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	engine, left := deadEngine(t)
	rec := r.runNow(r.sess.RootAgentRef)
	rec.Engine, rec.Retired = recordOf(engine), false
	role, err := r.snapshotAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	role.MaxRecoveryAttempts = 0
	a := r.newAgent(&rec, role)
	a.start((*agent).engineLost)
	testkit.Await(t, a.ended, "the end of the root's actor")
	if got := r.cachedSession().RootOutcome; got != string(core.SessionSuspended) {
		t.Errorf("the root ended %q, want suspended", got)
	}
	if left.Alive() {
		t.Errorf("%v outlived the engine %v that started it", left, engine)
	}
}
