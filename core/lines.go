package core

import (
	"bufio"
	"errors"
)

// ReadLine returns the next line with its line feed, or nothing of one of more
// than limit bytes, which is passed over. Errors are those of the reader; the
// last line may come with io.EOF.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > limit; !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if long {
				line = nil
			}
			return line, err
		}
	}
}
