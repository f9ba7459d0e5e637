package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// screenScript answers a person: the first turn delegates and rests, so that
// the worker ends while nobody has a turn.
const screenScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "take a while"}
  step
    say "I sent somebody."

  when any user contains "[inbox]"
    step
      say "I heard of it."

model m-worker
  step
    shell "sleep 1"
  step
    say "DONE"
`

// screen is a terminal that a test types into.
type screen struct {
	t      *testing.T
	socket string
}

// open runs a command of ours in a terminal of its own. The terminal outlives
// the command, and an Enter that comes too late for it, until it is killed.
func (tm *team) open(args ...string) *screen {
	tm.t.Helper()
	tm.screens++ // a server of its own for each: one that is killed takes a moment to go
	s := &screen{t: tm.t, socket: filepath.Join(tm.place.Dir, fmt.Sprintf("tmux%d", tm.screens))}
	line := testkit.Binary(tm.t)
	for _, arg := range args {
		line += fmt.Sprintf(" %q", arg)
	}
	s.tmux(append(tm.place.Env(tm.t), "TERM=screen-256color"), "-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", "160", "-y", "50",
		"-c", tm.place.Workspace, line+"; echo EXIT=$?; exec cat")
	tm.t.Cleanup(func() { _ = exec.Command("tmux", "-S", s.socket, "kill-server").Run() })
	return s
}

// launch starts a session with Codex's screen on its root and returns it with
// what it shows once a person may type.
func (tm *team) launch() (s *screen, shown string) {
	tm.t.Helper()
	s = tm.open("launch", tm.profileDir())
	shown = s.await("Ask Codex to do anything")
	m := sessionLine.FindStringSubmatch(shown)
	if m == nil {
		tm.t.Fatalf("launch does not name its session:\n%s", shown)
	}
	tm.dial(m[1])
	return s, shown
}

// stop ends a session that has no exec command.
func (tm *team) stop() {
	tm.t.Helper()
	if out, errs, code := tm.run("stop", tm.session); code != 0 {
		tm.t.Errorf("stop exited %d: %s%s", code, out, errs)
		return // cleanUp tries again
	}
	close(tm.exited)
}

func (s *screen) tmux(env []string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %v: %v: %s (tmux is needed: apt-get install tmux)", args, err, out)
	}
	return string(out)
}

// await returns what the screen shows once it shows the text. A terminal tells
// nobody that it has drawn, so it is looked at again and again.
func (s *screen) await(text string) string {
	s.t.Helper()
	return s.poll(text, func(int) {})
}

// enter types a line and presses Enter until the screen shows the text: Codex
// takes keys that come in one burst for a paste, and an Enter right behind them
// for a part of it. On an empty line Enter does nothing.
func (s *screen) enter(line, shows string) string {
	s.t.Helper()
	s.tmux(nil, "send-keys", "-t", "s", "-l", line)
	s.await(line)
	return s.poll(shows, func(n int) {
		if n%20 == 10 { // every second
			s.tmux(nil, "send-keys", "-t", "s", "Enter")
		}
	})
}

// poll looks at the screen every 50 ms, and calls each before each look.
func (s *screen) poll(text string, each func(n int)) string {
	s.t.Helper()
	deadline, again := time.NewTimer(testkit.Patience), time.NewTicker(50*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for n := 0; ; n++ {
		each(n)
		shown := s.tmux(nil, "capture-pane", "-p", "-S", "-200", "-t", "s")
		if strings.Contains(shown, text) {
			return shown
		}
		select {
		case <-again.C:
		case <-deadline.C:
			s.t.Fatalf("the screen never showed %q:\n%s", text, shown)
		}
	}
}

// TestLaunchAttachDetach: Codex's own screen on the root; leaving it detaches,
// the session lives on and says how to come back; attach brings the screen
// back; the root hears of its worker; stop ends everything.
func TestLaunchAttachDetach(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, screenScript, 3)
	screen, shown := tm.launch()
	if strings.Contains(shown, "could not find bubblewrap") {
		t.Errorf("the screen warns:\n%s", shown)
	}
	if got := tm.look().Status; got != "running" {
		t.Errorf("with a terminal the session is %s, want running", got)
	}
	screen.enter("send somebody", "I sent somebody.")
	shown = screen.enter("/quit", "EXIT=0")
	for _, want := range []string{"detached: session " + tm.session, "codex-mmo attach " + tm.session, "codex-mmo stop " + tm.session} {
		if !strings.Contains(shown, want) {
			t.Errorf("leaving does not say %q:\n%s", want, shown)
		}
	}
	tm.await("the detached session", func(e control.FollowEvent) bool { return e.Type == "session" && e.Status == "detached" })
	screen.tmux(nil, "kill-server")

	// Nobody is there: the root is woken and says so in its own thread.
	tm.await("the wake", func(e control.FollowEvent) bool {
		return e.Agent == "lead" && strings.Contains(e.Text, "I heard of it.")
	})
	screen = tm.open("attach", tm.session)
	screen.await("I heard of it.")
	tm.look()
	tm.stop()
	screen.await("EXIT=")
	tm.assertClean()
}

// TestKilledTerminalDetaches: a terminal that is killed, with the launch command
// in it, takes nothing along.
func TestKilledTerminalDetaches(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, screenScript, 3)
	screen, _ := tm.launch()
	engine := tm.process("app-server", false)
	screen.tmux(nil, "kill-server")
	tm.await("the detached session", func(e control.FollowEvent) bool { return e.Type == "session" && e.Status == "detached" })
	if !engine.Alive() {
		t.Error("the root's engine died with the terminal")
	}
	tm.look()
	tm.stop()
	tm.assertClean()
	if left, err := process.WithEnv("CODEX_HOME", func(v string) bool { return strings.HasPrefix(v, tm.place.Dir+string(os.PathSeparator)) }); err != nil || len(left) > 0 {
		t.Errorf("screens live on: %+v %v", left, err)
	}
}

// interruptedScript lets a person interrupt the lead while it waits.
const interruptedScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "take a while"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    say "I waited."

  when any user contains "[inbox]"
    step
      say "I heard of it."

model m-worker
  step
    shell "sleep 3"
  step
    say "DONE"
`

// TestNewsWaitsForTheTerminal: what happened while a person was there, after he
// had interrupted the lead, is told once the terminal is gone.
func TestNewsWaitsForTheTerminal(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, interruptedScript, 3)
	screen, _ := tm.launch()
	screen.enter("go", "agents_wait")
	tm.await("the wait", func(e control.FollowEvent) bool { return e.Agent == "lead" && e.Text == "calls agents_wait" })
	screen.tmux(nil, "send-keys", "-t", "s", "Escape")
	tm.await("the worker's end", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "completed" })
	tm.look()
	screen.tmux(nil, "kill-server")
	tm.await("the wake", func(e control.FollowEvent) bool {
		return e.Agent == "lead" && strings.Contains(e.Text, "I heard of it.")
	})
	tm.stop()
	tm.assertClean()
}
