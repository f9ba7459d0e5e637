package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameFree gives a file a name that must be free, within a folder.
func renameFree(dir *os.File, from, to string) error {
	return unix.Renameat2(int(dir.Fd()), from, int(dir.Fd()), to, unix.RENAME_NOREPLACE)
}

// renameSwap makes two files of a folder change names, in one step.
func renameSwap(dir *os.File, a, b string) error {
	return unix.Renameat2(int(dir.Fd()), a, int(dir.Fd()), b, unix.RENAME_EXCHANGE)
}
