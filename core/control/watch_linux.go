package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvents are the ways in which a socket can appear at a path, and a folder
// can appear or go away on the way to it.
const watchEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// watchPause is the pace of looking again where the kernel has no watch left
// for us to use.
const watchPause = 100 * time.Millisecond

// watch tells that something changed on the way to a path.
type watch struct {
	path   string
	notify *os.File // nil where the kernel refused one
	fd     int      // of notify; its own Fd method would make reads block
}

func newWatch(path string) *watch {
	w := &watch{path: path}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
		w.notify, w.fd = os.NewFile(uintptr(fd), "inotify"), fd
		w.place()
	}
	return w
}

// place watches the folder of the socket, or the nearest one above that exists.
// Watching a folder again changes nothing.
func (w *watch) place() {
	for dir := filepath.Dir(w.path); ; dir = filepath.Dir(dir) {
		_, err := unix.InotifyAddWatch(w.fd, dir, watchEvents)
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) || dir == filepath.Dir(dir) {
			w.close() // the fallback pace serves from here on
			return
		}
	}
}

// wait returns true after a change, false when ctx ended first.
func (w *watch) wait(ctx context.Context) bool {
	if w.notify == nil {
		return pause(ctx, watchPause)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.notify.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := w.notify.Read(make([]byte, 4096)); err != nil {
		return false
	}
	// A folder may have come or gone with the event; the dial that follows sees
	// what happened before the watch was moved.
	w.place()
	return ctx.Err() == nil
}

func (w *watch) close() {
	if w.notify != nil {
		_ = w.notify.Close()
		w.notify = nil
	}
}
