package sdk

import (
	"os"
	"path/filepath"
	"syscall"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// self returns the identity of this process. The start time is left out: the
// standard library can't read it here, and the caller knows it.
func self() *basepb.Process {
	p := &basepb.Process{Pid: int32(os.Getpid()), Pgid: int32(syscall.Getpgrp()), Command: filepath.Base(os.Args[0])}
	if boot, err := syscall.Sysctl("kern.bootsessionuuid"); err == nil {
		p.BootId = boot
	}
	return p
}
