package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// A pid alone is never enough.
//
// Spec: R056
func TestIdentityRequiresMatchingStartToken(t *testing.T) {
	whole, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func(*process.Identity)
		want bool
	}{
		{"as it is", func(*process.Identity) {}, true},
		{"no start token", func(id *process.Identity) { id.StartToken = "" }, false},
		{"another start token", func(id *process.Identity) { id.StartToken += "1" }, false},
		{"no boot id", func(id *process.Identity) { id.BootID = "" }, false},
		{"another boot", func(id *process.Identity) { id.BootID = "00000000-0000-0000-0000-000000000000" }, false},
		{"no pid", func(id *process.Identity) { id.PID = 0 }, false},
		{"nothing", func(id *process.Identity) { *id = process.Identity{} }, false},
		{"pid alone", func(id *process.Identity) { *id = process.Identity{PID: id.PID} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := whole
			tt.edit(&id)
			if got := id.Alive(); got != tt.want {
				t.Errorf("Identity%+v.Alive() = %v, want %v", id, got, tt.want)
			}
			h, err := process.Open(id)
			if tt.want {
				if err != nil {
					t.Fatal(err)
				}
				_ = h.Close()
			} else if !errors.Is(err, process.ErrGone) {
				t.Errorf("Open(%+v) = %v, want an error that wraps ErrGone", id, err)
			}
		})
	}
}

// The command may hold anything, also what looks like further fields.
func TestLookupOfHostileCommand(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), ") Z 1 2 3 (")
	copyFile(t, self(t), path)
	cmd := exec.Command(path)
	cmd.Env = []string{roleEnv + "=sleep"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	id, err := process.Lookup(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if id.PID != cmd.Process.Pid || id.Command != ") Z 1 2 3 (" || !id.Alive() {
		t.Errorf("Lookup = %+v, alive %v", id, id.Alive())
	}
	if parent, err := process.Parent(id.PID); err != nil || parent != os.Getpid() {
		t.Errorf("Parent = %d, %v, want %d", parent, err, os.Getpid())
	}
}

func TestLookupOfNobody(t *testing.T) {
	const beyond = 1 << 22 // PID_MAX_LIMIT
	if id, err := process.Lookup(beyond); !errors.Is(err, process.ErrGone) {
		t.Errorf("Lookup(%d) = %v, %v, want an error that wraps ErrGone", beyond, id, err)
	}
	if !(process.Identity{}).Zero() || (process.Identity{PID: 1}).Zero() {
		t.Error("Zero is wrong")
	}
}

func TestEnvironAndMark(t *testing.T) {
	child, _ := start(t, "sleep", func(s *process.Spec) {
		s.Env = append(s.Env, "A=1", "B=x=y", process.MarkEnv+"=ar_test0marked/7")
	})
	env, err := process.Environ(child.Identity().PID)
	if err != nil {
		t.Fatal(err)
	}
	if env["A"] != "1" || env["B"] != "x=y" || len(env) != 4 {
		t.Errorf("Environ = %v", env)
	}
	found, err := process.Marked(func(mark string) bool { return mark == "ar_test0marked/7" })
	if err != nil || len(found) != 1 || !found[0].Same(child.Identity()) {
		t.Errorf("Marked = %v, %v, want %v", found, err, child.Identity())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o700); err != nil {
		t.Fatal(err)
	}
}
