package access_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/access"
)

// TestSameNamespacesTellsASandbox starts a process in each kind of namespace
// that a sandbox makes.
func TestSameNamespacesTellsASandbox(t *testing.T) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	for name, flag := range map[string]uintptr{
		"user": 0, "mount": syscall.CLONE_NEWNS, "pid": syscall.CLONE_NEWPID,
	} {
		t.Run(name, func(t *testing.T) {
			pid := startHelper(t, &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | flag,
				UidMappings: ids,
			})
			if same, err := access.SameNamespaces(pid); err != nil || same {
				t.Errorf("SameNamespaces = %v, %v, want false", same, err)
			}
		})
	}
}
