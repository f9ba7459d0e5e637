package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// assert checks a finding's verdict, what its reason holds, and that one which
// is not ok has a remedy that holds the text.
func assert(t *testing.T, got Finding, verdict Verdict, reason, remedy string) {
	t.Helper()
	if got.Verdict != verdict || !strings.Contains(got.Reason, reason) || !strings.Contains(got.Remedy, remedy) {
		t.Errorf("finding = %+v, want %s, a reason with %q and a remedy with %q", got, verdict, reason, remedy)
	}
	if (got.Verdict == OK) != (got.Remedy == "") {
		t.Errorf("finding = %+v, want a remedy exactly when it is not ok", got)
	}
	if got.Group == "" || got.Check == "" || got.Reason == "" {
		t.Errorf("finding = %+v, want every part filled in", got)
	}
}

func TestJudgePlatform(t *testing.T) {
	for _, tt := range []struct {
		system, kernel string
		want           Verdict
		reason, remedy string
	}{
		{"linux", "6.1.0-31-amd64", OK, "linux/arm64, kernel 6.1.0-31-amd64", ""},
		{"linux", "5.4.0", OK, "5.4.0", ""},
		{"linux", "5.3.18", Failed, "older than 5.4", "newer kernel"},
		{"linux", "4.19", Failed, "older than 5.4", "newer kernel"},
		{"linux", "", Warning, "kernel", "5.4"},
		{"darwin", "24.0.0", Warning, "adopted or swept", "Linux"},
		{"plan9", "4", Failed, "not supported", "Linux"},
	} {
		assert(t, judgePlatform(tt.system, "arm64", tt.kernel), tt.want, tt.reason, tt.remedy)
	}
}

func TestJudgeFiles(t *testing.T) {
	for _, tt := range []struct {
		limit  uint64
		want   Verdict
		reason string
		remedy string
	}{
		{^uint64(0), OK, "no limit", ""},
		{1<<63 - 1, OK, "no limit", ""}, // macOS
		{1 << 20, OK, "1048576 a process", ""},
		{1024, OK, "1024", ""},
		{1023, Warning, "a team needs 1024", "ulimit -Hn 1024"},
		{256, Warning, "256 a process", "ulimit"},
		{255, Failed, "255 a process", "ulimit"},
	} {
		assert(t, judgeFiles(tt.limit), tt.want, tt.reason, tt.remedy)
	}
}

func TestJudgeSpace(t *testing.T) {
	for _, tt := range []struct {
		free   uint64
		want   Verdict
		reason string
	}{
		{5 << 30, OK, "5.0 GiB in /s"},
		{1 << 30, OK, "1.0 GiB"},
		{1<<30 - 1, Warning, "1023 MiB"},
		{200 << 20, Warning, "200 MiB"},
		{200<<20 - 1, Failed, "199 MiB"},
		{0, Failed, "0 MiB"},
	} {
		remedy := ""
		if tt.want != OK {
			remedy = "MMO_STATE_HOME"
		}
		assert(t, judgeSpace(tt.free, "/s"), tt.want, tt.reason, remedy)
	}
}

func TestJudgeSockets(t *testing.T) {
	base := "/" + strings.Repeat("r", 58) // 1+12 +1+9 +1+16 follow
	assert(t, judgeSockets(folders.Folders{Runtime: base}), OK, "99 of 99 bytes", "")
	assert(t, judgeSockets(folders.Folders{Runtime: base + "r"}), Failed, "has 100 bytes, more than 99", "MMO_RUNTIME_DIR")
}

func TestJudgeGit(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   Verdict
		reason string
		remedy string
	}{
		{"git version 2.39.5", OK, "version 2.39.5 at /git", ""},
		{"git version 2.32.0 (Apple Git-132)", OK, "2.32.0", ""},
		{"git version 3.0.0", OK, "3.0.0", ""},
		{"git version 2.31.8", Failed, "kept from reading configuration", "2.32"},
		{"git version 1.99", Failed, "kept from reading configuration", "2.32"},
		{"busybox", Warning, "no version", "2.32"},
	} {
		assert(t, judgeGit(tt.answer, "/git"), tt.want, tt.reason, tt.remedy)
	}
}

func TestJudgeSandbox(t *testing.T) {
	const ro, rw = codexhome.ProfileRead, codexhome.ProfileWrite
	saw := func(profile string, changed ...Reach) observed {
		list := []Reach{
			{What: theWorkspace, Read: true, Write: profile == rw},
			{What: theState},
			{What: theConfiguration},
			{What: theRuntime},
			{What: theCodexHome},
			{What: theKeys},
			{What: theHome, Read: true},
			{What: theTemporary, Read: true},
			{What: Network},
		}
		for i := range list {
			list[i].Profile = profile
			for _, c := range changed {
				if c.What == list[i].What {
					list[i].Read, list[i].Write = c.Read, c.Write
				}
			}
		}
		return observed{reach: list}
	}
	for _, tt := range []struct {
		profile string
		saw     observed
		want    Verdict
		reason  string
	}{
		{ro, saw(ro), OK, "reads the workspace and writes nothing; our state and your keys are closed"},
		{rw, saw(rw), OK, "reads and writes the workspace and writes nothing else"},
		{ro, saw(ro, Reach{What: theWorkspace, Read: true, Write: true}), Failed, "a command in it writes workspace"},
		{rw, saw(rw, Reach{What: theWorkspace, Read: true}), Failed, "can't write workspace"},
		{ro, saw(ro, Reach{What: theHome, Read: true, Write: true}), Failed, "writes the rest of your home"},
		{rw, saw(rw, Reach{What: theTemporary, Read: true, Write: true}), Failed, "writes temporary files"},
		{rw, saw(rw, Reach{What: theState, Write: true}), Failed, "writes our records, homes and evidence"},
		{ro, saw(ro, Reach{What: theConfiguration, Read: true}), Failed, "reads our configuration and credentials"},
		{ro, saw(ro, Reach{What: theRuntime, Read: true}), Failed, "reads our sockets"},
		{ro, saw(ro, Reach{What: theCodexHome, Read: true}, Reach{What: theKeys, Read: true}), Failed, "reads your own Codex and its login, reads your keys"},
		{ro, saw(ro, Reach{What: Network, Read: true}), Failed, "reaches the network"},
		{ro, saw(ro, Reach{What: theHome}), OK, ""}, // closed by somebody else: no harm
		{ro, observed{exit: 1, complain: "bwrap: no"}, Failed, "(exit 1): bwrap: no"},
		{ro, observed{exit: 2, complain: "Usage: codex sandbox"}, Warning, "not checked"},
		{ro, observed{exit: 2, complain: "sh: broken"}, Failed, "(exit 2)"},
	} {
		got := judgeSandbox(tt.profile, tt.saw)
		remedy := map[Verdict]string{OK: "", Warning: "reviewed Codex", Failed: ""}[tt.want]
		assert(t, got, tt.want, tt.reason, remedy)
	}
}

// A team works without some of its roles, and not without its root, which fails
// the examination only when it is the team that was named.
func TestJudgeRoutes(t *testing.T) {
	s := &profile.Snapshot{RootAgent: "lead", Order: []string{"lead", "worker"}}
	lead, worker := map[string]string{"lead": "missing login"}, map[string]string{"worker": "missing credential A_KEY"}
	assert(t, judgeRoutes("demo", s, nil, true), OK, "every role", "")
	assert(t, judgeRoutes("demo", s, worker, true), Warning, "worker: missing credential A_KEY", "credentials.env")
	assert(t, judgeRoutes("demo", s, lead, false), Warning, "lead: missing login", "codex login")
	assert(t, judgeRoutes("demo", s, lead, true), Failed, "lead: missing login", "codex login")
}

// An error's remedy comes apart from its reason, unless it is wrapped in more
// text; without one, the caller's is taken.
func TestFound(t *testing.T) {
	plain := core.Errorf(core.KindOS, "no %s", "disk").WithRemedy("buy one")
	for _, tt := range []struct {
		err            error
		reason, remedy string
	}{
		{plain, "no disk", "buy one"},
		{errors.Join(plain), "no disk", "buy one"},
		{core.Errorf(core.KindOS, "no disk"), "no disk", "think"},
		{errors.New("no disk"), "no disk", "think"},
		{fmt.Errorf("probe: %w", plain), "probe: no disk; buy one", "think"},
		{fmt.Errorf("probe: %w", errTooLong), "probe: " + errTooLong.Error(), remedyTime},
	} {
		want := Finding{Group: "g", Check: "c", Verdict: Failed, Reason: tt.reason, Remedy: tt.remedy}
		if diff := cmp.Diff(want, found("g", "c", Failed, tt.err, "think")); diff != "" {
			t.Errorf("found(%v) (-want +got):\n%s", tt.err, diff)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		" a\nb\t c\r\n":                "a b  c",
		"\x1b[2Jred\x00":               "?[2Jred?",
		"grün …":                       "grün …",
		"\u202eevil":                   "?evil",
		strings.Repeat("ä", maxLine):   strings.Repeat("ä", maxLine),
		strings.Repeat("ä", maxLine+1): strings.Repeat("ä", maxLine) + "…",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// A check that hangs is reported and holds nobody up; findings keep the order
// of the checks, however long each takes.
func TestRunAll(t *testing.T) {
	release, slow := make(chan struct{}), make(chan struct{})
	defer close(release)
	ok := func(name string) outcome { return outcome{findings: []Finding{finding(name, name, OK, "fine")}} }
	checks := []check{
		{"hangs", func(context.Context) outcome { <-release; return ok("hangs") }},
		{"slow", func(context.Context) outcome { <-slow; return ok("slow") }},
		{"tidy", func(ctx context.Context) outcome { // ends when it is told, and still counts
			<-ctx.Done()
			return outcome{findings: []Finding{found("tidy", "tidy", Failed, context.Cause(ctx), "")}}
		}},
		{"quick", func(context.Context) outcome { close(slow); return ok("quick") }},
	}
	const limit = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var got []Finding
	for _, o := range runAll(ctx, limit, checks) {
		got = append(got, o.findings...)
	}
	if len(got) != 4 {
		t.Fatalf("runAll = %+v, want four findings", got)
	}
	assert(t, got[0], Failed, "did not end within 500ms", "--timeout")
	assert(t, got[1], OK, "fine", "")
	if got[2].Verdict != Failed || got[2].Reason != errTooLong.Error() {
		t.Errorf("a check that ends when told = %+v, want its own words", got[2])
	}
	assert(t, got[3], OK, "fine", "")
}

func TestSourceAndHints(t *testing.T) {
	dir := t.TempDir()
	cached := filepath.Join(dir, "codex-mmo", "codex", "0.149.0", "codex")
	if err := errors.Join(os.MkdirAll(filepath.Dir(cached), 0o700), os.WriteFile(cached, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"XDG_CACHE_HOME": dir, "PATH": dir}
	p := &patient{Input: &Input{Getenv: func(name string) string { return env[name] }}, ground: noGround}
	real, err := filepath.EvalSymlinks(cached)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{real: "the cache of `make codex`", "/usr/bin/codex": "PATH"} {
		if got := p.source(path, codexbin.CacheDirs(p.Getenv)); got != want {
			t.Errorf("source(%s) = %s, want %s", path, got, want)
		}
	}
	p.ground = func() ground { return ground{settings: &profile.Settings{CodexBin: "codex"}} }
	if got := p.source(real, nil); got != "the setting codex_bin" {
		t.Errorf("source = %s, want the setting", got)
	}
	env["MMO_CODEX_BIN"] = real
	if got := p.source(real, codexbin.CacheDirs(p.Getenv)); got != "MMO_CODEX_BIN" {
		t.Errorf("source = %s, want the variable", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "npm"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	hints := p.fetchHints()
	if len(hints) != 2 {
		t.Fatalf("hints = %+v, want node and npm", hints)
	}
	assert(t, hints[0], Warning, "node is not on PATH", "install node")
	assert(t, hints[1], OK, filepath.Join(dir, "npm"), "")
}

func TestReportCount(t *testing.T) {
	r := &Report{Findings: []Finding{{Verdict: OK}, {Verdict: Failed}, {Verdict: OK}, {Verdict: Warning}}}
	if r.Count(OK) != 2 || r.Count(Warning) != 1 || r.Count(Failed) != 1 {
		t.Errorf("counts = %d, %d, %d, want 2, 1, 1", r.Count(OK), r.Count(Warning), r.Count(Failed))
	}
}

// ownPID makes names that are the same each time, and no other test process's.
type ownPID struct{}

func (ownPID) Read(p []byte) (int, error) {
	n := copy(p, binary.BigEndian.AppendUint32(nil, uint32(os.Getpid())))
	return n, nil
}
