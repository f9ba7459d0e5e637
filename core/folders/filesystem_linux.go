package folders

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// networkFilesystems maps the type that statfs(2) reports to a name: those
// whose locks or shared memory don't hold between machines, which the store
// relies on. Numbers from linux/magic.h and the file systems' own sources.
var networkFilesystems = map[int64]string{
	0x6969:     "nfs",
	0x517B:     "smb",
	0xFE534D42: "smb2",
	0xFF534D42: "cifs",
	0x01021997: "9p",
	0x5346414F: "afs",
	0x73757245: "coda",
	0x00C36400: "ceph",
	0x0BD00BD0: "lustre",
	0x47504653: "gpfs",
}

// CheckFilesystem refuses a folder on a network file system. A folder that
// does not exist passes.
func CheckFilesystem(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return core.Errorf(core.KindOS, "looking at the file system of %s: %w", dir, err)
	}
	if name, ok := networkFilesystems[int64(uint32(stat.Type))]; ok {
		return networkRefusal(dir, name)
	}
	return nil
}
