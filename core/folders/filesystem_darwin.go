package folders

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

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
	if stat.Flags&unix.MNT_LOCAL == 0 {
		return networkRefusal(dir, unix.ByteSliceToString(stat.Fstypename[:]))
	}
	return nil
}
