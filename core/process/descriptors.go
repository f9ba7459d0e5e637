package process

import (
	"os"
	"strconv"
	"syscall"
)

// closeOnExecEach marks every open descriptor above 2, one by one; dir lists
// them.
func closeOnExecEach(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
