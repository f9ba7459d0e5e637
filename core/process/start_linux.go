package process

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// executable returns a path by which the child executes the open file itself,
// whatever its name points to by then.
//
// While the child sets up its own descriptors it overwrites the numbers just
// above the highest one that it is given, so the file is moved out of the way
// first. It is closed on exec: the kernel has read it by then, and the running
// program has no use for it.
func executable(binary *os.File, _ string, files []*os.File) (string, func(), error) {
	highest := len(files)
	for _, f := range files {
		highest = max(highest, int(f.Fd()))
	}
	fd, err := unix.FcntlInt(binary.Fd(), unix.F_DUPFD_CLOEXEC, highest+len(files)+8)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), func() { _ = unix.Close(fd) }, nil
}

// closeOnExec makes sure that no descriptor which this process was given by
// its own parent leaks into the child. Go opens its own with close-on-exec.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // Linux before 5.11
		return closeOnExecEach("/proc/self/fd")
	}
	return err
}
