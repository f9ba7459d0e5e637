package main_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// resumeScript talks to a person.
const resumeScript = `
model m-lead
  step
    say "I am here."
  step
    say "I am back."

model m-worker
  step
    say "DONE"
`

// argvOfScreen returns the arguments of the one Codex screen of the place.
func (tm *team) argvOfScreen() []string {
	tm.t.Helper()
	home := filepath.Join(tm.folders.SessionDir(tm.session), "homes", "terminal")
	var found []string
	tm.until("Codex's screen", func() bool {
		list, err := process.WithEnv("CODEX_HOME", func(v string) bool { return v == home })
		if err != nil {
			tm.t.Fatal(err)
		}
		for _, id := range list {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
			if argv := strings.Split(string(bytes.TrimSuffix(raw, []byte{0})), "\x00"); err == nil && slices.Contains(argv, "--remote") {
				found = argv
			}
		}
		return found != nil
	})
	return found
}

// TestResumeKeepsTheSession: a person leaves and comes back with resume: it is
// the same session, run, thread, home and capability; what was tampered with is
// restored, and a copied rollout does not matter.
//
// Spec: R020, R023, R029, R035
func TestResumeKeepsTheSession(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, resumeScript, 3)
	screen, _ := tm.launch()
	screen.enter("hello", "I am here.")
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("detached")
	screen.tmux(nil, "kill-server")
	before := tm.record()
	if before.ThreadID == "" || before.RunSequence != 1 || before.CurrentRunID == "" {
		t.Fatalf("the detached session is on thread %q, run %q, sequence %d", before.ThreadID, before.CurrentRunID, before.RunSequence)
	}
	home := before.Homes["lead"]
	guidance := filepath.Join(home.Dir, "AGENTS.md")
	written := fileHash(t, guidance)
	if err := os.WriteFile(guidance, []byte("tampered"), 0o600); err != nil {
		t.Fatal(err)
	}
	copyRollout(t, home.Dir)
	hash := tm.tokenHash()
	if err := os.RemoveAll(tm.profileDir()); err != nil { // nothing is compiled again
		t.Fatal(err)
	}

	screen = tm.open("resume", tm.session)
	screen.await("I am here.")
	argv := tm.argvOfScreen()
	if want := []string{"resume", before.ThreadID}; !cmp.Equal(argv[len(argv)-2:], want) || argv[1] != "--remote" {
		t.Errorf("the screen runs as %q, want --remote … %q", argv, want)
	}
	tm.until("the recorded screen", func() bool { return tm.record().Client != nil })
	if _, err := tm.client.ResumeSession(t.Context(), control.ResumeRequest{}); err == nil || !strings.Contains(err.Error(), "already has an attached") {
		t.Errorf("a second resume says %v, want already has an attached client", err)
	}
	tm.look()
	screen.enter("hello again", "I am back.")
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("detached")

	after := tm.record()
	if diff := cmp.Diff([]any{before.SessionID, before.ThreadID, before.CurrentRunID, 1, before.SnapshotHash, home},
		[]any{after.SessionID, after.ThreadID, after.CurrentRunID, after.RunSequence, after.SnapshotHash, after.Homes["lead"]}); diff != "" {
		t.Errorf("what a resume keeps (-want +got):\n%s", diff)
	}
	if now := tm.tokenHash(); now != hash {
		t.Errorf("the root's capability changed from %s to %s", hash, now)
	}
	if r := tm.runRecord(); r.Sequence != 1 || r.Kind != "initial" || r.Status != "detached" {
		t.Errorf("the run is %d %s %s, want 1 initial detached", r.Sequence, r.Kind, r.Status)
	}
	if got := fileHash(t, guidance); got != written {
		t.Errorf("AGENTS.md has hash %s, want %s: it was not restored", got, written)
	}
	tm.view(func(tx *store.Tx) error {
		list, err := tx.Sessions(store.SessionFilter{})
		if len(list) != 1 {
			t.Errorf("there are %d sessions, want 1", len(list))
		}
		return err
	})
	tm.stop()
	tm.assertClean()
}

func copyRollout(t *testing.T, home string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "rollout-*.jsonl"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no rollout below %s: %v", home, err)
	}
	raw, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strings.Replace(list[0], "rollout-", "rollout-2020", 1), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileHash(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// tokenHash is the recorded hash of the root's capability.
func (tm *team) tokenHash() string {
	tm.t.Helper()
	var hashes []string
	tm.view(func(tx *store.Tx) error {
		rec, err := tx.Session(tm.session)
		if err != nil {
			return err
		}
		caps, err := tx.Capabilities(rec.RootAgentRef)
		for _, c := range caps {
			if c.Kind == "caller" && c.RevokedAt == nil {
				hashes = append(hashes, c.TokenSHA256)
			}
		}
		return err
	})
	if len(hashes) != 1 {
		tm.t.Fatalf("the root has %d capabilities, want 1", len(hashes))
	}
	return hashes[0]
}

// TestResumeAfterAPowerCut: all processes died; the resumed session goes on on
// the threads that it had, and says which jobs it found dead.
//
// Spec: A028
func TestResumeAfterAPowerCut(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	job, root, worker := tm.atWork()
	tm.leaveExec()
	tm.die()
	tm.assertNoProcess()
	if rec := tm.record(); rec.Status != "running" && rec.Status != "detached" {
		t.Errorf("a session whose processes died is on record as %s", rec.Status)
	}
	screen := tm.open("resume", tm.session)
	screen.await("The worker says: DONE")
	tm.assertResumed(screen, job, root, worker)
	tm.assertClean()
}

// assertResumed proves that a session of pauseScript went on where it was, and
// leaves it to its end.
func (tm *team) assertResumed(s *screen, job, root, worker string) {
	tm.t.Helper()
	if got := tm.audited("session_jobs_reconciled"); got == nil || fmt.Sprint(got["jobs"]) != fmt.Sprint([]string{job}) {
		tm.t.Errorf("the audit of session_jobs_reconciled is %v, want job %s", got, job)
	}
	view := tm.look()
	if view.RootThreadID != root || view.Jobs[0].ThreadID != worker {
		tm.t.Errorf("the threads are %s and %s, want %s and %s", view.RootThreadID, view.Jobs[0].ThreadID, root, worker)
	}
	tm.assertSentOnce()
	s.enter("/quit", "EXIT=0")
	tm.awaitStatus("completed") // nobody looks on any more
}
