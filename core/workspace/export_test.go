package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// OldFilesystem makes a repository one on a file system that can neither swap
// names nor rename without replacing, as NFS.
func (r *Repo) OldFilesystem() {
	no := func(*os.File, string, string) error { return unix.EINVAL }
	r.renames = renames{free: no, swap: no}
}
