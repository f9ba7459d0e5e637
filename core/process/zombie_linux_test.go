package process_test

import (
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core/process"
)

func TestZombieCountsAsGone(t *testing.T) {
	cmd := exec.Command(self(t))
	cmd.Env = []string{roleEnv + "=exit"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	id, err := process.Lookup(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Errorf("zombie %v is alive", id)
	}
	if _, err := process.Open(id); !errors.Is(err, process.ErrGone) {
		t.Errorf("Open(zombie) = %v, want an error that wraps ErrGone", err)
	}
}
