//go:build !linux

package appserver

import "time"

// folderWatch ticks: only Linux carries the promise of an event here.
type folderWatch struct {
	changed chan struct{} // capacity 1: something may have changed
	stop    chan struct{}
	done    chan struct{}
}

// watchFolder starts to tick. Its goroutine ends with close.
func watchFolder(string) (*folderWatch, error) {
	w := &folderWatch{
		changed: make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	go w.run()
	return w, nil
}

func (w *folderWatch) run() {
	defer close(w.done)
	tick := time.NewTicker(refusedPauseMax)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (w *folderWatch) close() {
	close(w.stop)
	<-w.done
}
