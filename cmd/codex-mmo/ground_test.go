package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestBadGround: what a session needs and does not find is refused by name,
// with a remedy, before anything of a session is made.
func TestBadGround(t *testing.T) {
	t.Parallel()
	notCodex := func(t *testing.T, p *testkit.Place, script string) string {
		path := filepath.Join(p.Dir, "codex")
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	onlyGit := func(t *testing.T, p *testkit.Place, tools ...string) string {
		bin := filepath.Join(p.Dir, "bin")
		if err := os.Mkdir(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			path, err := exec.LookPath(tool)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
				t.Fatal(err)
			}
		}
		return bin
	}
	tests := []struct {
		name string
		env  func(t *testing.T, p *testkit.Place) []string // NAME=value, or NAME= to unset
		args []string
		code int
		want []string // all in the error
	}{
		{
			name: "Codex named and missing",
			env:  func(*testing.T, *testkit.Place) []string { return []string{"MMO_CODEX_BIN=/nowhere/codex"} },
			code: 1, want: []string{"MMO_CODEX_BIN", "/nowhere/codex", "make codex"},
		},
		{
			name: "no Codex anywhere",
			env: func(t *testing.T, p *testkit.Place) []string {
				return []string{"MMO_CODEX_BIN=", "PATH=" + onlyGit(t, p, "git")}
			},
			code: 1, want: []string{"no codex", "make codex"},
		},
		{
			name: "Codex of another protocol",
			env: func(t *testing.T, p *testkit.Place) []string {
				return []string{"MMO_CODEX_BIN=" + notCodex(t, p, "#!/bin/sh\necho codex-cli 0.1.0\n")}
			},
			code: 1, want: []string{"codex", "make codex"},
		},
		{
			name: "no git",
			env: func(t *testing.T, p *testkit.Place) []string {
				return []string{"PATH=" + onlyGit(t, p, "sh")}
			},
			code: 1, want: []string{"git is not on PATH", "install git"},
		},
		{
			name: "workspace is no repository",
			env: func(t *testing.T, p *testkit.Place) []string {
				if err := os.RemoveAll(filepath.Join(p.Workspace, ".git")); err != nil {
					t.Fatal(err)
				}
				return nil
			},
			code: 1, want: []string{"not inside a git repository", "git init"},
		},
		{
			name: "HOME unset and no folders named",
			env: func(*testing.T, *testkit.Place) []string {
				return []string{"HOME=", "MMO_STATE_HOME=", "MMO_CONFIG_HOME=", "MMO_RUNTIME_DIR="}
			},
			code: 1, want: []string{"HOME"},
		},
		{
			name: "state below a world-writable folder",
			env: func(t *testing.T, p *testkit.Place) []string {
				open := filepath.Join(p.Dir, "open")
				if err := os.Mkdir(open, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
					t.Fatal(err)
				}
				return []string{"MMO_STATE_HOME=" + filepath.Join(open, "state")}
			},
			code: 1, want: []string{"world-writable", "MMO_STATE_HOME"},
		},
		{
			name: "socket paths too long",
			env: func(t *testing.T, p *testkit.Place) []string {
				deep := filepath.Join(p.Dir, strings.Repeat("d", 60))
				if err := os.Mkdir(deep, 0o700); err != nil {
					t.Fatal(err)
				}
				return []string{"MMO_RUNTIME_DIR=" + deep}
			},
			code: 1, want: []string{"more than 99", "MMO_RUNTIME_DIR"},
		},
		{name: "no such profile", args: []string{"exec", "no-such-team", "go"}, code: 1, want: []string{"no-such-team"}},
		{name: "empty prompt", args: []string{"exec", "offline-demo", " "}, code: 1, want: []string{"prompt"}},
		{name: "no such workspace", args: []string{"exec", "offline-demo", "go", "--cwd", "/nowhere"}, code: 1, want: []string{"/nowhere", "--cwd"}},
		{name: "too few arguments", args: []string{"exec"}, code: 2, want: []string{"exec", "--help"}},
		{name: "no active profile", args: []string{"exec", "go"}, code: 1, want: []string{"no profile was named", "codex-mmo profile use"}},
		{name: "a binding of nothing", args: []string{"exec", "offline-demo", "go", "--bind", "lead"}, code: 2, want: []string{"--bind", "AGENT=MODEL"}},
		{name: "an unknown binding", args: []string{"exec", "offline-demo", "go", "--bind", "leed=offline-reader"}, code: 1, want: []string{`there is no agent "leed"`, "did you mean lead?"}},
		{name: "an unknown fault", args: []string{"exec", "offline-demo", "go", "--route-fault", "offline-chat=generic_unavailable"}, code: 1, want: []string{"must be one of rate_limit"}},
		{name: "a fault of no route", args: []string{"exec", "offline-demo", "go", "--route-fault", "nowhere=timeout"}, code: 1, want: []string{`unknown route "nowhere"`}},
		{name: "a fault that maps nothing", args: []string{"exec", "offline-demo", "go", "--route-fault", "timeout"}, code: 2, want: []string{"must map"}},
		{name: "profile and snapshot", args: []string{"exec", "offline-demo", "go", "--snapshot", strings.Repeat("0", 64)}, code: 1, want: []string{"cannot be combined"}},
		{name: "unknown command", args: []string{"frobnicate"}, code: 2, want: []string{`"frobnicate"`, "--help"}},
		{name: "launch of too much", args: []string{"launch", "a", "b", "c"}, code: 2, want: []string{"launch", "--help"}},
		{name: "launch without a terminal", args: []string{"launch", "offline-demo"}, code: 1, want: []string{"needs a terminal", "codex-mmo exec"}},
		{name: "a workspace that holds our state", args: []string{"exec", "offline-demo", "go"}, env: func(t *testing.T, p *testkit.Place) []string {
			gitInit(t, p.Dir)
			if err := os.RemoveAll(filepath.Join(p.Workspace, ".git")); err != nil {
				t.Fatal(err)
			}
			return []string{"MMO_STATE_HOME=" + filepath.Join(p.Workspace, "state")}
		}, code: 1, want: []string{"holds our own folder", "--cwd"}},
		{name: "a workspace in .git", args: []string{"exec", "offline-demo", "go", "--cwd", ".git"}, code: 1, want: []string{"inside a .git folder", "--cwd"}},
		{name: "attach to too much", args: []string{"attach", "a", "b"}, code: 2, want: []string{"attach", "--help"}},
		{name: "unknown flag", args: []string{"exec", "offline-demo", "go", "--nope"}, code: 2, want: []string{"--nope"}},
		{name: "status of nothing", args: []string{"status"}, code: 1, want: []string{"no session yet", "codex-mmo demo"}},
		{name: "a path for a session", args: []string{"status", "../../etc"}, code: 2, want: []string{"not the id of a session"}},
		{name: "an unknown session", args: []string{"stop", "20200101-000000-x-00000000"}, code: 1, want: []string{"no session"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := testkit.NewPlace(t)
			gitInit(t, p.Workspace)
			args := tt.args
			if args == nil {
				args = []string{"exec", "offline-demo", "go"}
			}
			cmd := p.Command(t, args...)
			if tt.env != nil {
				cmd.Env = overridden(cmd.Env, tt.env(t, p))
			}
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); err == nil || code != tt.code {
				t.Errorf("exit %d (%v), want %d", code, err, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the error does not say %q: %s", want, out)
				}
			}
			if strings.Count(strings.TrimSpace(string(out)), "\n") > 0 {
				t.Errorf("the error is not one line: %s", out)
			}
			if list, _ := filepath.Glob(filepath.Join(p.State, "sessions", "*")); len(list) > 0 {
				t.Errorf("a session was half made: %v", list)
			}
		})
	}
}

// overridden replaces variables; an empty value takes one away.
func overridden(env, changes []string) []string {
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		var kept []string
		for _, old := range env {
			if !strings.HasPrefix(old, name+"=") {
				kept = append(kept, old)
			}
		}
		if env = kept; value != "" {
			env = append(env, change)
		}
	}
	return env
}

// TestReadOnlyHome: a home that can't be written is refused by name.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	gitInit(t, p.Workspace)
	// Root ignores modes; a file in the way of a folder is refused to anybody.
	home := filepath.Join(p.Dir, "home-file")
	if err := os.WriteFile(home, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	cmd := p.Command(t, "exec", "offline-demo", "go")
	cmd.Env = overridden(cmd.Env, []string{"HOME=" + home, "MMO_STATE_HOME=", "MMO_CONFIG_HOME=", "MMO_RUNTIME_DIR="})
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), home) {
		t.Errorf("exec with an unusable HOME: %v, %s", err, out)
	}
}
