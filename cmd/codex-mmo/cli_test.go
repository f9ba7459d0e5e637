package main_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// typed is one command line and what it must come to. Each line of stdout and
// stderr is a regular expression that must match; none means that nothing may
// be printed there.
type typed struct {
	args           []string
	code           int
	stdout, stderr []string
}

// check runs the command in the place and compares.
func (c typed) check(t *testing.T, p *testkit.Place) {
	t.Helper()
	cmd := p.Command(t, c.args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("codex-mmo %q: %v", c.args, err)
	}
	if got := cmd.ProcessState.ExitCode(); got != c.code {
		t.Errorf("codex-mmo %q exited %d, want %d", c.args, got, c.code)
	}
	c.compare(t, "stdout", stdout.String(), c.stdout)
	c.compare(t, "stderr", stderr.String(), c.stderr)
}

func (c typed) compare(t *testing.T, stream, got string, want []string) {
	t.Helper()
	if len(want) == 0 && got != "" {
		t.Errorf("codex-mmo %q wrote %q to %s, want nothing", c.args, got, stream)
	}
	for _, line := range want {
		if !regexp.MustCompile("(?m)" + line).MatchString(got) {
			t.Errorf("codex-mmo %q wrote to %s\n%swhich does not match %s", c.args, stream, got, line)
		}
	}
}

func line(words string, more ...string) []string { return append(strings.Fields(words), more...) }

// TestVersion: a person reads which build this is, a script which interfaces it
// speaks.
func TestVersion(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	typed{line("version"), 0, []string{`^codex-mmo \S+ \(state 1\.0\.0, control API 1, plugin protocol 1\)$`}, nil}.check(t, p)
	typed{line("version --json"), 0, []string{`"control_api": 1`, `"plugin_protocol": 1`, `"state_package": "1\.0\.0"`, `"version": `}, nil}.check(t, p)
}

// TestBeforeTheFirstSession: verbs that read say how to begin, and make
// nothing.
func TestBeforeTheFirstSession(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	begin := []string{"there is no session yet; start one with `codex-mmo demo` or `codex-mmo exec`"}
	for _, c := range []typed{
		{line("sessions"), 0, nil, begin},
		{line("sessions --json"), 0, []string{`\A\{\n  "sessions": \[\]\n\}\n\z`}, nil},
		{line("status"), 1, nil, begin},
		{line("attach"), 1, nil, begin},
		{line("stop s-1"), 1, nil, begin},
		{line("audit s-1"), 1, nil, begin},
		{line("status --json"), 1, []string{`"kind": "FileNotFoundError"`, `"remedy": "start one with`}, nil},
	} {
		c.check(t, p)
	}
	for _, dir := range []string{p.Config, p.State, p.Runtime} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v (%v), want nothing", dir, entries, err)
		}
	}
}

// TestHelp: help names the verbs for people and teaches how each is called.
func TestHelp(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	verbs := []string{`A profile names the team`}
	for verb := range strings.FieldsSeq("launch exec attach demo sessions status stop audit doctor version") {
		verbs = append(verbs, `^  `+verb+` +\S`)
	}
	for _, c := range []typed{
		{nil, 0, verbs, nil},
		{line("exec --help"), 0, []string{`codex-mmo exec PROFILE "PROMPT"`, `Exit codes: 0 completed, 1 failed`, `--cwd`}, nil},
		{line("launch --help"), 0, []string{`Leaving the\s+screen`, `codex-mmo attach`}, nil},
		{line("status --help"), 0, []string{`brought back first`, `RESULT says what the lead did`}, nil},
		{line("stop --help"), 0, []string{`ends the session for good`, `--grace`}, nil},
		{line("help audit"), 0, []string{`written before the act`}, nil},
	} {
		c.check(t, p)
	}
	out, err := p.Command(t, "--help").Output()
	if hidden := regexp.MustCompile(`(?m)^  (supervise|plugin|completion) `).Find(out); err != nil || hidden != nil {
		t.Errorf("help lists %q (%v): it is for the product itself", hidden, err)
	}
}

// TestUsageErrors: a wrong command line exits with 2 and says what is right;
// with --json the error is a value on stdout.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	for _, c := range []typed{
		{line("exec"), 2, nil, []string{"`codex-mmo exec` takes 2 argument\\(s\\), got 0: see `codex-mmo exec --help`"}},
		{line("exec only-a-profile"), 2, nil, []string{`takes 2 argument\(s\), got 1`}},
		{line("sessions surplus"), 2, nil, []string{`takes 0 argument\(s\), got 1`}},
		{line("status one two"), 2, nil, []string{"`codex-mmo status` takes one SESSION or none, got 2"}},
		{line("stop"), 2, nil, []string{`takes 1 argument\(s\), got 0`}},
		{line("status ../../etc/passwd"), 2, nil, []string{"\"../../etc/passwd\" is not the id of a session; see `codex-mmo sessions`"}},
		{line("status --watchful"), 2, nil, []string{`unknown flag: --watchful`}},
		{line("stop s-1 --grace soon"), 2, nil, []string{`invalid argument "soon"`}},
		{line("sessions surplus --json"), 2, []string{`"kind": "ValueError"`, `takes 0 argument`}, nil},
	} {
		c.check(t, p)
	}
}

// TestHostileTextInRecords: what an engine or a provider said steers no
// terminal and breaks no line of `status`; scripts get every byte.
func TestHostileTextInRecords(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	const said = "\x1b[2Jboom\x1b]0;owned\x07\u202e\nsecond line"
	plant(t, p, "bad", core.SessionFailed, said)
	plant(t, p, "good", core.SessionCompleted, "")
	typed{line("sessions"), 0, []string{`^SESSION +PROFILE +STATUS +LAST ACTIVE +WORKSPACE$`, `^bad +demo +failed +`, `^good +demo +completed +`}, nil}.check(t, p)
	typed{line("status bad"), 0, []string{`^error +\[2Jboom\]0;owned$`}, nil}.check(t, p)
	typed{line("status bad --json"), 0, []string{`"error": "\\u001b\[2Jboom\\u001b\]0;owned\\u0007\x{202e}\\nsecond line"`}, nil}.check(t, p)
	out, err := p.Command(t, "status", "bad").Output()
	if err != nil || bytes.ContainsAny(out, "\x1b\x07\u202e") || bytes.Contains(out, []byte("second line")) {
		t.Errorf("status printed %q (%v), want the error's first line without what steers a terminal", out, err)
	}
}

// plant records a session that has ended with an error's text.
func plant(t *testing.T, p *testkit.Place, id string, status core.SessionStatus, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	f := folders.Folders{Config: p.Config, State: p.State, Runtime: p.Runtime}
	st, err := store.Open(ctx, f.Database(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	err = st.Update(ctx, func(tx *store.Tx) error {
		return tx.PutSession(&store.Session{
			SessionID: id, ProfileID: "demo", ProfileVersion: "1", Kind: "noninteractive", Workspace: filepath.Join(p.Dir, "project"),
			RootAgent: "lead", Status: status, RunSequence: 1, CreatedAt: at, LastActiveAt: at, Error: text,
		})
	})
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
}
