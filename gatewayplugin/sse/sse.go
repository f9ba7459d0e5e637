// Package sse reads and writes server-sent events.
//
// The reader takes what providers really send: CRLF, CR or LF, data over
// several lines, no space after the colon, comments, a byte order mark, no
// blank line before the end, and characters split between network packets. It
// works on bytes, so a split character never breaks.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent bounds the data of one event, in bytes. Images in a tool's result
// make megabytes; more is an attack or an error.
const MaxEvent = 32 << 20

// ErrTooLarge says that an event was larger than MaxEvent.
var ErrTooLarge = errors.New("event is too large")

// Event is one event of a stream.
type Event struct {
	Name string // of the event field; may be empty
	Data []byte // data lines joined by newlines; never nil
}

// Reader reads events. It is not safe for concurrent use.
type Reader struct {
	src    *bufio.Reader
	begun  bool
	skipLF bool // the last line ended with CR, so that a LF belongs to it
}

// NewReader returns a reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: bufio.NewReaderSize(src, 16<<10)}
}

// Next returns the next event that has data. At the end of the stream it
// returns io.EOF, after what was left; another error of the source or
// ErrTooLarge ends the stream at once.
func (r *Reader) Next() (Event, error) {
	var e Event
	for {
		line, err := r.line(len(e.Data))
		if err != nil && err != io.EOF {
			return Event{}, err
		}
		if len(line) == 0 && (err == nil || e.Data != nil) {
			if e.Data != nil {
				return e, nil
			}
			e = Event{} // a name without data is no event
			continue
		}
		e.take(line)
		if err == io.EOF {
			if e.Data != nil {
				return e, nil
			}
			return Event{}, io.EOF
		}
	}
}

// take adds one line to the event.
func (e *Event) take(line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.Name = string(value)
	case "data":
		if e.Data != nil {
			e.Data = append(e.Data, '\n')
		} else {
			e.Data = []byte{}
		}
		e.Data = append(e.Data, value...)
	}
}

// line returns the next line without its end. have is what the event holds
// already. With io.EOF the line is what stood before the end.
func (r *Reader) line(have int) ([]byte, error) {
	if !r.begun {
		r.begun = true
		if mark, err := r.src.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			_, _ = r.src.Discard(3) // just peeked
		}
	}
	var line []byte
	for {
		buffered, err := r.fill()
		if err != nil {
			return line, err
		}
		end := bytes.IndexAny(buffered, "\r\n")
		if end < 0 {
			line = append(line, buffered...)
			_, _ = r.src.Discard(len(buffered)) // just peeked
		} else {
			line = append(line, buffered[:end]...)
			r.skipLF = buffered[end] == '\r'
			_, _ = r.src.Discard(end + 1) // just peeked
		}
		if have+len(line) > MaxEvent {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxEvent)
		}
		if end >= 0 {
			return line, nil
		}
	}
}

// fill returns what is buffered, at least one byte, and never waits for more
// than that: an event must be seen as soon as it is there. For the same reason
// the LF of a CRLF is dropped here, with the line that follows it.
func (r *Reader) fill() ([]byte, error) {
	for {
		if _, err := r.src.Peek(1); err != nil {
			return nil, err
		}
		buffered, _ := r.src.Peek(r.src.Buffered()) // it is buffered
		if !r.skipLF || buffered[0] != '\n' {
			r.skipLF = false
			return buffered, nil
		}
		r.skipLF = false
		_, _ = r.src.Discard(1) // just peeked
	}
}

// copyBelow is the size up to which an event is copied to be written in one
// call, in bytes.
const copyBelow = 16 << 10

// Write writes one event, in one call of w.Write when it is small. data must
// not hold a line break, which JSON never does.
func Write(w io.Writer, name string, data []byte) error {
	buf := make([]byte, 0, len(name)+min(len(data), copyBelow)+20)
	if name != "" {
		buf = append(buf, "event: "...)
		buf = append(buf, name...)
		buf = append(buf, '\n')
	}
	buf = append(buf, "data: "...)
	if len(data) > copyBelow {
		if _, err := w.Write(buf); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		buf = buf[:0]
	} else {
		buf = append(buf, data...)
	}
	buf = append(buf, "\n\n"...)
	_, err := w.Write(buf)
	return err
}
