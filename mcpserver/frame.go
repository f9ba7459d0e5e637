package mcpserver

import (
	"bufio"
	"errors"
	"io"
)

// maxFrame is the longest line that is read, in bytes. The largest honest one
// is a task text.
const maxFrame = 4 << 20

// frame is one line of input, without its end.
type frame struct {
	data    []byte
	tooLong bool // the line was longer than maxFrame and has been skipped
}

// readFrames sends each line of in, and closes the channel at the end of in. A
// last line without a line feed counts. It is the only reader of in and ends
// when in does, or at its next line once done is closed; a read that blocks
// can't be interrupted.
func readFrames(in io.Reader, frames chan<- frame, done <-chan struct{}) {
	defer close(frames)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		f, err := readFrame(r)
		if len(f.data) > 0 || f.tooLong {
			select {
			case frames <- f:
			case <-done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readFrame reads to the next line feed, in bounded memory whatever comes. With
// an error it also returns what came before it.
func readFrame(r *bufio.Reader) (frame, error) {
	var f frame
	for {
		part, err := r.ReadSlice('\n')
		if !f.tooLong {
			f.data = append(f.data, part...)
			if len(f.data) > maxFrame {
				f = frame{tooLong: true}
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return f, err
		}
	}
}
