package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/doctor"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// healthy is what doctor finds where everything is in order.
var healthy = map[string]doctor.Verdict{
	"machine/platform": doctor.OK, "machine/open files": doctor.OK, "machine/free space": doctor.OK,
	"folders/configuration": doctor.OK, "folders/state": doctor.OK, "folders/runtime": doctor.OK, "folders/socket paths": doctor.OK,
	"git/git": doctor.OK, "git/workspace": doctor.OK,
	"codex/binary": doctor.OK, "codex/gate": doctor.OK,
	"sandbox/mmo-ro": doctor.OK, "sandbox/mmo-rw": doctor.OK,
	"profiles/ChatGPT login": doctor.OK, "profiles/bundled": doctor.OK, "profiles/routes": doctor.OK,
	"mcp/handshake": doctor.OK,
	"records/store": doctor.OK,
}

// A healthy machine: every check is run for real, against real Codex and our
// own MCP server, and nothing stays behind.
//
// Spec: A060
func TestDoctor(t *testing.T) {
	p := equipped(t)
	before := tree(t, p.Dir)
	r := runDoctor(t, p, nil)
	if diff := cmp.Diff(healthy, verdicts(r)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s\n%+v", diff, r.Findings)
	}
	if !r.OK || r.Codex == nil || r.Codex.Version != testkit.CodexVersion || r.Codex.Verdict != "reviewed" || r.Codex.Path != testkit.Codex(t) {
		t.Errorf("ok = %t, codex = %+v, want the pinned one, reviewed", r.OK, r.Codex)
	}
	if r.MCP == nil || !r.MCP.Passed || !slices.Contains(r.MCP.Tools, "agent_status") {
		t.Fatalf("mcp = %+v, want it passed with the tool agent_status", r.MCP)
	}
	var initialize struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if err := json.Unmarshal(r.MCP.Initialize, &initialize); err != nil || initialize.Result.ProtocolVersion != "2025-06-18" {
		t.Errorf("the answer to initialize = %s, %v, want protocol version 2025-06-18", r.MCP.Initialize, err)
	}
	for _, f := range r.Findings {
		if f.Check == "binary" && !strings.HasSuffix(f.Reason, "found by MMO_CODEX_BIN") {
			t.Errorf("finding = %+v, want where Codex was found", f)
		}
	}
	// The gate's cache is what the first session would have made.
	cache := []string{"state/codex", "state/codex/codex-gate.json"}
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(before, cache...))), tree(t, p.Dir)); diff != "" {
		t.Errorf("files after doctor (-want +got):\n%s", diff)
	}
	testkit.AssertModes(t, p.State)
	for _, name := range []string{"HOME", "CODEX_HOME", "MMO_CONTROL_SOCKET"} {
		left, err := process.WithEnv(name, func(value string) bool { return strings.HasPrefix(value, p.Dir) })
		if err != nil || len(left) > 0 {
			t.Errorf("processes left by their %s: %v, %v", name, left, err)
		}
	}
	t.Logf("examined in %.2f s", r.ElapsedSeconds)

	// The same for people: a line a finding, and the sum.
	out, err := p.Command(t, "doctor", "--timeout", "60s").Output()
	if err != nil {
		t.Fatalf("doctor: %v: %s", err, out)
	}
	text := string(out)
	sum := fmt.Sprintf("%d ok, 0 warnings, 0 failed, in ", len(r.Findings))
	for _, want := range []string{"\nsandbox\n  ok  mmo-ro  a command reads the workspace", sum} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor printed %s, want %q in it", text, want)
		}
	}
	groups := 8
	if lines := strings.Count(text, "\n"); lines != groups+len(r.Findings)+2 {
		t.Errorf("doctor printed %d lines, want one a finding and a group, and the sum: %s", lines, text)
	}
}

// equipped is a place with a workspace and a credential for every bundled team.
func equipped(t *testing.T) *testkit.Place {
	t.Helper()
	p := testkit.NewPlace(t)
	gitCommit(t, p.Workspace)
	secrets := "OPENAI_API_KEY=x\nANTHROPIC_API_KEY=x\nOPENROUTER_API_KEY=x\nOPENCODE_API_KEY=x\nZAI_CODING_API_KEY=x\n"
	login := filepath.Join(p.Home, ".codex")
	if err := errors.Join(
		os.WriteFile(filepath.Join(p.Config, "credentials.env"), []byte(secrets), 0o600),
		os.Mkdir(login, 0o700), os.WriteFile(filepath.Join(login, "auth.json"), []byte("{}"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return p
}

// doctor --sandbox shows what agents' commands can do, place by place, and leaves
// out what does not bear on it.
func TestDoctorSandbox(t *testing.T) {
	t.Parallel()
	p := equipped(t)
	if err := errors.Join(os.WriteFile(filepath.Join(p.Home, ".netrc"), []byte("machine\n"), 0o600), os.Mkdir(filepath.Join(p.Home, ".ssh"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := runDoctor(t, p, nil, "--sandbox")
	can := map[string]string{}
	for _, reach := range r.Sandbox {
		can[reach.What] += fmt.Sprintf(" %s %t/%t", reach.Profile, reach.Read, reach.Write)
	}
	closed := " mmo-ro false/false mmo-rw false/false"
	want := map[string]string{
		"workspace":                         " mmo-ro true/false mmo-rw true/true",
		"our records, homes and evidence":   closed,
		"our configuration and credentials": closed,
		"our sockets":                       closed,
		"your own Codex and its login":      closed,
		"your keys":                         " mmo-ro false/false mmo-ro false/false mmo-rw false/false mmo-rw false/false",
		"the rest of your home":             " mmo-ro true/false mmo-rw true/false",
		"temporary files":                   " mmo-ro true/false mmo-rw true/false",
		"network, of roles without it":      closed,
	}
	if diff := cmp.Diff(want, can); diff != "" || !r.OK || r.MCP != nil {
		t.Errorf("ok = %t, mcp = %v, reach (-want +got):\n%s", r.OK, r.MCP, diff)
	}
	out, err := p.Command(t, "doctor", "--sandbox", "--timeout", "60s").Output()
	if err != nil {
		t.Fatalf("doctor: %v: %s", err, out)
	}
	for _, line := range []string{
		"what agents can reach mmo-ro mmo-rw", "workspace read read, write", "our sockets closed closed " + p.Runtime, "network, of roles without it closed closed",
	} {
		if text := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(text, line) {
			t.Errorf("doctor printed %s, want %q in it", out, line)
		}
	}
}

// Each thing that is broken is told by its own line, with a remedy; what does
// not stand on it is checked all the same.
func TestDoctorOnBrokenGround(t *testing.T) {
	const ok, warning, failed = doctor.OK, doctor.Warning, doctor.Failed
	noFolders := map[string]doctor.Verdict{
		"folders/configuration": "", "folders/state": "", "folders/runtime": "",
		"folders/roots": failed, "folders/socket paths": warning, "machine/free space": warning,
		"sandbox/mmo-ro": warning, "sandbox/mmo-rw": warning, "mcp/handshake": warning, "records/store": warning,
		"profiles/own profiles": warning, "profiles/routes": warning,
	}
	noCodex := map[string]doctor.Verdict{"codex/binary": failed, "codex/gate": warning, "sandbox/mmo-ro": warning, "sandbox/mmo-rw": warning}
	tests := []struct {
		name   string
		change func(t *testing.T, p *testkit.Place) []string // returns NAME=value, or NAME= to unset
		args   []string
		differ map[string]doctor.Verdict // from healthy; empty: no such finding
		check  string                    // the finding with
		want   []string                  // these in its text
	}{
		{
			name:   "Codex named and missing",
			change: func(*testing.T, *testkit.Place) []string { return []string{"MMO_CODEX_BIN=/nowhere/codex"} },
			differ: with(noCodex, "codex/node", "*", "codex/npm", "*"),
			check:  "codex/binary", want: []string{"/nowhere/codex", "make codex"},
		},
		{
			name: "Codex that is none",
			change: func(t *testing.T, p *testkit.Place) []string {
				path, err := exec.LookPath("cat")
				if err != nil {
					t.Fatal(err)
				}
				return []string{"MMO_CODEX_BIN=" + path}
			},
			differ: with(noCodex, "codex/binary", ok, "codex/gate", failed),
			check:  "codex/gate", want: []string{"protocol version mismatch", "make codex"},
		},
		{
			name: "HOME unset and no folders named",
			change: func(*testing.T, *testkit.Place) []string {
				return []string{"HOME=", "MMO_STATE_HOME=", "MMO_CONFIG_HOME=", "MMO_RUNTIME_DIR="}
			},
			differ: noFolders, check: "folders/roots", want: []string{"HOME", "set HOME"},
		},
		{
			name: "state below a world-writable folder",
			change: func(t *testing.T, p *testkit.Place) []string {
				open := filepath.Join(p.Dir, "open")
				if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777|os.ModeSticky)); err != nil {
					t.Fatal(err)
				}
				return []string{"MMO_STATE_HOME=" + filepath.Join(open, "state")}
			},
			differ: noFolders, check: "folders/roots", want: []string{"world-writable", "MMO_STATE_HOME"},
		},
		{
			name: "socket paths too long",
			change: func(_ *testing.T, p *testkit.Place) []string {
				deep := filepath.Join(p.Dir, strings.Repeat("d", 60))
				return []string{"MMO_RUNTIME_DIR=" + deep, "MMO_CODEX_BIN=/nowhere/codex"}
			},
			differ: with(noCodex, "folders/socket paths", failed, "mcp/handshake", failed, "codex/node", "*", "codex/npm", "*"),
			check:  "folders/socket paths", want: []string{"more than 99", "MMO_RUNTIME_DIR"},
		},
		{
			name: "no git",
			change: func(*testing.T, *testkit.Place) []string {
				return []string{"PATH=/nowhere", "MMO_CODEX_BIN=/nowhere/codex"}
			},
			differ: with(noCodex, "git/git", failed, "git/workspace", warning, "codex/node", warning, "codex/npm", warning),
			check:  "git/git", want: []string{"git is not on PATH", "install git"},
		},
		{
			name:   "a profile that does not compile",
			change: func(*testing.T, *testkit.Place) []string { return []string{"MMO_CODEX_BIN=/nowhere/codex"} },
			args:   []string{"no-such-team"},
			differ: with(noCodex, "profiles/bundled", "", "profiles/routes", "", "profiles/no-such-team", failed, "codex/node", "*", "codex/npm", "*"),
			check:  "profiles/no-such-team", want: []string{"no-such-team"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := equipped(t)
			r := runDoctor(t, p, tt.change(t, p), tt.args...)
			got, want := verdicts(r), map[string]doctor.Verdict{}
			for name, verdict := range healthy {
				want[name] = verdict
			}
			for name, verdict := range tt.differ {
				want[name] = verdict
				if verdict == "" {
					delete(want, name)
				} else if verdict == "*" { // depends on the machine
					want[name] = got[name]
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s\n%+v", diff, r.Findings)
			}
			for _, f := range r.Findings {
				if f.Verdict != doctor.OK && f.Remedy == "" {
					t.Errorf("finding = %+v, want a remedy", f)
				}
				for _, part := range tt.want {
					if f.Group+"/"+f.Check == tt.check && !strings.Contains(f.Reason+"; "+f.Remedy, part) {
						t.Errorf("finding = %+v, want %q in it", f, part)
					}
				}
			}
			if r.OK {
				t.Error("ok is true")
			}
		})
	}
}

// doctor's command line is checked, and an agent gets no examination.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	for _, tt := range []struct {
		env  string
		args []string
		code int
		want string
	}{
		{args: []string{"doctor", "a", "b"}, code: 2, want: "one profile or none"},
		{args: []string{"doctor", "--sandbox", "a"}, code: 2, want: "takes no profile"},
		{args: []string{"doctor", "--timeout", "10ms"}, code: 2, want: "--timeout"},
		{env: "MMO_AGENT=ar_1/1", args: []string{"doctor"}, code: 1, want: "your own terminal"},
	} {
		cmd := p.Command(t, tt.args...)
		cmd.Env = append(cmd.Env, tt.env)
		out, _ := cmd.CombinedOutput() // judged by its code
		if cmd.ProcessState.ExitCode() != tt.code || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: exit %d, %s, want %d and %q", tt.args, cmd.ProcessState.ExitCode(), out, tt.code, tt.want)
		}
	}
}

// with returns a copy of the verdicts with some set: name, verdict, name...
func with(base map[string]doctor.Verdict, more ...doctor.Verdict) map[string]doctor.Verdict {
	all := map[string]doctor.Verdict{}
	for name, verdict := range base {
		all[name] = verdict
	}
	for i := 0; i < len(more); i += 2 {
		all[string(more[i])] = more[i+1]
	}
	return all
}

// runDoctor runs `codex-mmo doctor --json` and checks that stdout is one JSON
// value and that the exit code says what it says.
func runDoctor(t *testing.T, p *testkit.Place, env []string, args ...string) *doctor.Report {
	t.Helper()
	cmd := p.Command(t, append([]string{"doctor", "--json", "--timeout", "60s"}, args...)...)
	cmd.Env = overridden(cmd.Env, env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var r doctor.Report
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.DisallowUnknownFields()
	if jsonErr := decoder.Decode(&r); jsonErr != nil || decoder.More() {
		t.Fatalf("doctor --json printed no JSON (%v, %v): %s%s", err, jsonErr, out, &stderr)
	}
	if code := cmd.ProcessState.ExitCode(); (code == 0) != r.OK || code > 1 || stderr.Len() > 0 {
		t.Errorf("exit %d and ok = %t, stderr %q", code, r.OK, &stderr)
	}
	return &r
}

// verdicts maps group and check to the verdict.
func verdicts(r *doctor.Report) map[string]doctor.Verdict {
	all := map[string]doctor.Verdict{}
	for _, f := range r.Findings {
		if name := f.Group + "/" + f.Check; all[name] == "" || all[name] == doctor.OK {
			all[name] = f.Verdict
		}
	}
	return all
}

// tree lists everything below a folder, sorted.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// gitCommit makes a repository with one commit.
func gitCommit(t *testing.T, dir string) {
	t.Helper()
	gitInit(t, dir)
	cmd := exec.Command("git", "-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "--allow-empty", "-m", "x")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git commit: %v: %s", err, out)
	}
}
