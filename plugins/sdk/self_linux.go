package sdk

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// self returns the identity of this process; fields that can't be read stay
// empty.
func self() *basepb.Process {
	p := &basepb.Process{Pid: int32(os.Getpid()), Pgid: int32(syscall.Getpgrp()), Command: filepath.Base(os.Args[0])}
	if sid, _, errno := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0); errno == 0 {
		p.Sid = int32(sid)
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.BootId = strings.TrimSpace(string(boot))
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return p
	}
	// The command may hold ")"; field 3 of proc(5) stat follows the last one,
	// and the start time is field 22.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) > 22-3 {
		p.StartToken = fields[22-3]
	}
	return p
}
