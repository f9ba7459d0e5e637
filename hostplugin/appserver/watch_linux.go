package appserver

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// folderWatch tells that something was made in, or moved into, a folder.
type folderWatch struct {
	changed chan struct{} // capacity 1: something changed since last read
	file    *os.File
	done    chan struct{}
}

// watchFolder starts to watch dir. Its goroutine ends with close.
func watchFolder(dir string) (*folderWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	w := &folderWatch{
		changed: make(chan struct{}, 1),
		file:    os.NewFile(uintptr(fd), "inotify"),
		done:    make(chan struct{}),
	}
	go w.run()
	return w, nil
}

func (w *folderWatch) run() {
	defer close(w.done)
	buf := make([]byte, 4096)
	for {
		if _, err := w.file.Read(buf); err != nil {
			return
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (w *folderWatch) close() {
	_ = w.file.Close()
	<-w.done
}
