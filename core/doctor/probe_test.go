package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// patientIn is a patient in a place of its own.
func patientIn(t *testing.T) (*patient, *testkit.Place) {
	t.Helper()
	place := testkit.NewPlace(t)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": place.Home,
		"MMO_CONFIG_HOME": place.Config, "MMO_STATE_HOME": place.State, "MMO_RUNTIME_DIR": place.Runtime,
	}
	in := &Input{Getenv: func(name string) string { return env[name] }, Cwd: place.Workspace, Build: "test", Random: ownPID{}, Binary: "/never/run"}
	p := newPatient(in)
	if p.ground().err != nil {
		t.Fatal(p.ground().err)
	}
	return p, place
}

// noGround is where the folders can't be had.
func noGround() ground {
	return ground{err: errors.New("no folders"), settings: &profile.Settings{}, credentials: profile.EnvCredentials(nil)}
}

// assertNothingLeft checks that a probe took its folders away.
func assertNothingLeft(t *testing.T, place *testkit.Place, extra ...string) {
	t.Helper()
	for _, dir := range append([]string{place.Runtime, place.State}, extra...) {
		for _, pattern := range []string{"dr--*", "*/dr--*"} {
			if left, _ := filepath.Glob(filepath.Join(dir, pattern)); len(left) > 0 {
				t.Errorf("the probe left %v", left)
			}
		}
	}
}

func TestMCPProbe(t *testing.T) {
	for _, tt := range []struct {
		role  string
		want  Verdict
		parts []string // of the reason
		tools int
	}{
		{"mcp-good", OK, []string{"2025-06-18", "6 tools"}, 6},
		{"mcp-old", Failed, []string{"mcp-old mcp`", `speaks MCP "2024-11-05" instead of 2025-06-18`}, 0},
		{"mcp-few", Failed, []string{`"agents_spawn" "agent_status"`, "instead of"}, 5},
		{"mcp-thief", Failed, []string{"tools/list was refused", "is not the MCP server that the doctor started"}, 0},
		{"mcp-exit", Failed, []string{"no answer", "it said: no such\nlibrary"}, 0},
		{"mcp-babble", Failed, []string{`it answered "hello"`}, 0},
		{"mcp-flood", Failed, []string{"more than 1048576 bytes"}, 0},
	} {
		t.Run(tt.role, func(t *testing.T) {
			p, place := patientIn(t)
			p.Binary = role(t, place.Dir, tt.role)
			o := p.mcp(t.Context())
			if len(o.findings) != 1 || o.mcp == nil {
				t.Fatalf("mcp = %+v, want one finding and the probe", o)
			}
			for _, part := range tt.parts {
				if !strings.Contains(o.findings[0].Reason, part) {
					t.Errorf("reason = %q, want %q in it", o.findings[0].Reason, part)
				}
			}
			if got := o.findings[0].Verdict; got != tt.want || o.mcp.Passed != (tt.want == OK) || len(o.mcp.Tools) != tt.tools {
				t.Errorf("mcp = %s, %+v, want %s and %d tools", got, o.mcp, tt.want, tt.tools)
			}
			assertNothingLeft(t, place)
		})
	}
	p, _ := patientIn(t)
	p.Binary = "/nowhere/codex-mmo"
	assert(t, p.mcp(t.Context()).findings[0], Failed, "/nowhere/codex-mmo", "report it")
}

// A server that says nothing is ended in time, with all that it started.
func TestMCPProbeEndsAMuteServer(t *testing.T) {
	p, place := patientIn(t)
	p.Binary = role(t, place.Dir, "mcp-mute")
	role(t, place.Dir, "mcp-sleeper")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTooLong)
	defer cancel()
	o := p.mcp(ctx)
	assert(t, o.findings[0], Failed, errTooLong.Error(), "--timeout")
	raw, err := os.ReadFile(filepath.Join(place.Dir, "child.pid"))
	if err != nil {
		t.Fatalf("the server did not get to its child: %v", err)
	}
	pid, err := strconv.Atoi(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := process.Lookup(pid); err == nil && id.Alive() {
		t.Errorf("the server's child %s lives on", id)
	}
	assertNothingLeft(t, place)
}

func TestSandboxProbe(t *testing.T) {
	for _, tt := range []struct {
		role   string
		limit  time.Duration
		want   Verdict
		reason []string // of mmo-ro and mmo-rw
	}{
		{"codex-open", time.Minute, Failed, []string{
			"writes workspace, writes our records, homes and evidence, reads our records, homes and evidence, " +
				"writes our configuration and credentials, reads our configuration and credentials, writes our sockets, reads our sockets, " +
				"writes your own Codex and its login, reads your own Codex and its login, writes your keys, reads your keys, " +
				"writes the rest of your home, writes temporary files, reaches the network",
			"a command in it writes our records",
		}},
		{"codex-none", time.Minute, Failed, []string{"no command runs in it (exit 1): bwrap: no namespaces", "no command runs in it"}},
		{"codex-other", time.Minute, Warning, []string{"not checked", "not checked"}},
		{"codex-hang", 700 * time.Millisecond, Failed, []string{"did not run: " + errTooLong.Error(), "did not run"}},
	} {
		t.Run(tt.role, func(t *testing.T) {
			p, place := patientIn(t)
			theirs := []string{filepath.Join(place.Home, ".codex"), filepath.Join(place.Home, ".ssh"), place.Home}
			for _, dir := range theirs[:2] {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			netrc := filepath.Join(place.Home, ".netrc")
			if err := errors.Join(os.WriteFile(netrc, []byte("\nkey"), 0o600), os.WriteFile(filepath.Join(place.Home, ".git-credentials"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			p.codex <- codexbin.Pin{Path: role(t, place.Dir, tt.role), Version: "0.149.0"}
			ctx, cancel := context.WithTimeoutCause(t.Context(), tt.limit, errTooLong)
			defer cancel()
			o := p.sandbox(ctx)
			if len(o.findings) != 2 {
				t.Fatalf("sandbox = %+v, want a finding a profile", o.findings)
			}
			for i, name := range []string{codexhome.ProfileRead, codexhome.ProfileWrite} {
				if o.findings[i].Check != name {
					t.Errorf("finding %d is of %s, want %s", i, o.findings[i].Check, name)
				}
				assert(t, o.findings[i], tt.want, tt.reason[i], "")
			}
			if want := map[bool]int{true: 2 * 10}[tt.role == "codex-open"]; len(o.reach) != want {
				t.Errorf("reach = %+v, want %d places", o.reach, want)
			}
			for _, r := range o.reach {
				if r.Path == netrc && (!r.Read || r.Write) {
					t.Errorf("reach = %+v, want the file of keys read and not written", r)
				}
			}
			if key, err := os.ReadFile(netrc); err != nil || string(key) != "\nkey" {
				t.Errorf("the file of keys holds %q, %v", key, err)
			}
			assertNothingLeft(t, place, place.Config)
			for _, dir := range append(theirs, "/tmp") {
				if left, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("codex-mmo-dr--%08x", os.Getpid()))); len(left) > 0 {
					t.Errorf("the probe left %v", left)
				}
			}
		})
	}
}

// The Codex that the settings name is the one that is looked at.
func TestCodexOfTheSettings(t *testing.T) {
	p, place := patientIn(t)
	if err := os.WriteFile(filepath.Join(place.Config, "settings.toml"), []byte("codex_bin = \"/nowhere/codex\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = newPatient(p.Input)
	assert(t, p.findCodex(t.Context()).findings[0], Failed, "the setting codex_bin", "make codex")
}

// What stands on something that failed says so, and is not run.
func TestNotChecked(t *testing.T) {
	p, place := patientIn(t)
	close(p.codex)
	for _, f := range p.sandbox(t.Context()).findings {
		assert(t, f, Warning, "needs an admitted Codex", "again")
	}
	p, _ = patientIn(t)
	p.codex <- codexbin.Pin{}
	p.Binary = role(t, place.Dir, "mcp-good")
	p.ground = noGround
	for _, run := range []func(context.Context) outcome{p.sandbox, p.mcp, p.records} {
		for _, f := range run(t.Context()).findings {
			assert(t, f, Warning, "needs the folders", "again")
		}
	}
	list := p.folders(t.Context()).findings
	assert(t, list[0], Failed, "no folders", "MMO_STATE_HOME")
	assert(t, list[1], Warning, "needs the folders", "again")
	list = p.machine(t.Context()).findings
	assert(t, list[2], Warning, "needs the folders", "again")
}

func TestFolders(t *testing.T) {
	p, place := patientIn(t)
	var got [][2]string
	for _, f := range p.folders(t.Context()).findings[:3] {
		if f.Verdict != OK {
			t.Errorf("finding = %+v, want ok", f)
		}
		got = append(got, [2]string{f.Check, f.Reason})
	}
	for name, text := range map[string]string{"settings.toml": "colour = 1\n", "credentials.env": "no secret\n"} {
		path := filepath.Join(place.Config, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		bad := newPatient(p.Input)
		assert(t, bad.folders(t.Context()).findings[0], Failed, path, "")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	want := [][2]string{{"configuration", place.Config}, {"state", place.State}, {"runtime", place.Runtime}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
}
