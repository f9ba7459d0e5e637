package process_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// roleEnv makes the test binary play one of the processes that a test needs.
const roleEnv = "MMO_PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs a role. Each prints one line when it is ready.
func play(role string) int {
	switch role {
	case "exit":
		return 0
	case "sleep":
		fmt.Println(os.Getpid())
		block()
	case "stubborn": // no SIGTERM ends it
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(os.Getpid())
		block()
	case "draining": // as Codex: the first SIGTERM drains, the second ends
		terms := make(chan os.Signal, 2)
		signal.Notify(terms, syscall.SIGTERM)
		fmt.Println(os.Getpid())
		<-terms
		_ = syscall.Close(3) // tells that the first has come
		<-terms
		return 0
	case "tree": // has a child in its group and one in a session of its own
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(spawn("stubborn", false), spawn("stubborn", true))
		block()
	case "gone": // leaves the same two behind
		fmt.Println(spawn("stubborn", false), spawn("stubborn", true))
		return 0
	case "files":
		return printFiles()
	case "environment":
		fmt.Println(strings.Join(os.Environ(), ","))
		return 0
	case "executable":
		path, err := os.Executable()
		fmt.Println(path, err)
		return 0
	case "subreaper":
		return subreaper()
	}
	if play := systemRoles[role]; play != nil {
		return play()
	}
	return 64
}

// systemRoles are the roles that one operating system alone has.
var systemRoles = map[string]func() int{}

// block waits for ever. (An empty select would be a deadlock.)
func block() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	<-never
}

// spawn starts a process in the given role and returns its pid.
func spawn(role string, ownSession bool) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{roleEnv + "=" + role}
	if mark := os.Getenv(process.MarkEnv); mark != "" && !ownSession {
		cmd.Env = append(cmd.Env, process.MarkEnv+"="+mark)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// printFiles prints the descriptors that were open when this program began. Go
// opens some for itself: its poller, and the limits of its cgroup.
func printFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 1
	}
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "anon_inode") && !strings.HasPrefix(target, "/sys/fs/cgroup/") {
			open = append(open, e.Name())
		}
	}
	fmt.Println(strings.Join(open, " "))
	return 0
}

// subreaper retires a process that left a descendant which has neither its
// session nor a mark, and prints that descendant and what survived.
func subreaper() int {
	if err := process.BecomeSubreaper(); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go process.ReapOrphans(ctx)
	read, write, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	child, err := process.Start(process.Spec{
		Path: os.Args[0], Env: []string{roleEnv + "=gone"}, Stdout: write,
	})
	if err != nil {
		panic(err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		panic(err)
	}
	<-child.Done() // the two are ours now
	survivors, err := process.Retire(ctx, child.Identity(), nil)
	fmt.Println(strings.TrimSpace(line), len(survivors), err)
	return 0
}

// self is the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs a role through process.Start and returns the child and the first
// line that it prints. The child is ended with the test.
func start(t *testing.T, role string, edit func(*process.Spec)) (*process.Child, string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	spec := process.Spec{Path: self(t), Env: []string{roleEnv + "=" + role}, Stdout: write}
	if edit != nil {
		edit(&spec)
	}
	child, err := process.Start(spec)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Kill()
		<-child.Done()
	})
	if err := read.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil && role != "exit" {
		t.Fatalf("role %s printed nothing: %v", role, err)
	}
	return child, strings.TrimSpace(line)
}

// identities looks up the pids in a line. They are ended with the test.
func identities(t *testing.T, line string) []process.Identity {
	t.Helper()
	var ids []process.Identity
	for _, text := range strings.Fields(line) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		id, err := process.Lookup(pid)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(t, id) })
		ids = append(ids, id)
	}
	return ids
}

// kill ends a process if it still lives.
func kill(t *testing.T, id process.Identity) {
	t.Helper()
	h, err := process.Open(id)
	if err != nil {
		return // gone
	}
	defer func() { _ = h.Close() }()
	_ = h.Signal(syscall.SIGKILL)
	testkit.Await(t, h.Done(), "the end of "+id.String())
}

// assertGone fails for each process that lives.
func assertGone(t *testing.T, ids ...process.Identity) {
	t.Helper()
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("%v is alive", id)
		}
	}
}
