package control_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
)

// TestSandboxedCommandsAreRefused calls from another user namespace, with a
// token that would be good elsewhere.
func TestSandboxedCommandsAreRefused(t *testing.T) {
	path := controltest.SocketPath(t)
	controltest.Start(t, path, &controltest.Handler{
		OnJobs: func(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
			t.Error("the request of a sandboxed process reached the handler")
			return &control.JobsResponse{}, nil
		},
	})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callerEnv+"="+path, "MMO_CONTROL_TEST_TOKEN=t")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("a process in a user namespace of its own: %v; the machine must let users make one, as Codex's sandbox does: see `codex-mmo doctor`", err)
	}
	for _, want := range []string{"jobs: PermissionError", "hello: PermissionError", "runs in a sandbox"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the sandboxed process got:\n%swant %q", out, want)
		}
	}
}
