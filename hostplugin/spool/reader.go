package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Reader reads rows in order from the files, at its own pace. It has one
// caller.
type Reader struct {
	s     *Spool
	after Position // last row returned or passed
	seg   segment  // the open file's; gen 0 when none is open
	file  *os.File
	off   int64  // of the next unread byte
	line  uint64 // number of the line before it
	ahead *Row   // read, but a hole goes before it
}

// Reader returns a reader of the rows after a position. Close it.
func (s *Spool) Reader(after Position) *Reader { return &Reader{s: s, after: after} }

// Close gives the reader's file back.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// TryNext returns the next row when there is one. Where rows are missing, a Hole
// row stands in for them, with the position of the last missing one.
func (r *Reader) TryNext() (row Row, ok bool, err error) {
	if r.ahead != nil {
		row, r.ahead = *r.ahead, nil
		r.after = row.Position()
		return row, true, nil
	}
	for {
		row, ok, err := r.read()
		if err != nil || !ok {
			return Row{}, false, err
		}
		if !r.after.Before(row.Position()) {
			continue
		}
		expected := r.after.Seq + 1
		if row.Generation != r.after.Generation {
			expected = 1
		}
		if row.Seq == expected {
			r.after = row.Position()
			return row, true, nil
		}
		r.ahead = &row
		r.after = Position{row.Generation, row.Seq - 1}
		return Row{
			Generation: row.Generation, Seq: row.Seq - 1, At: row.At, Direction: Hole,
			Message: holeMessage("rows %d to %d of generation %d are missing from the spool",
				expected, row.Seq-1, row.Generation),
		}, true, nil
	}
}

// Changed returns a channel that is closed by the next Append or Close. Take it
// before TryNext, so that no row is missed in between.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// read returns the next sound row of the files, damaged lines left out.
func (r *Reader) read() (Row, bool, error) {
	for {
		end, ok, err := r.position()
		if err != nil || !ok {
			return Row{}, false, err
		}
		line, err := readLine(r.file, r.off, end)
		if err != nil {
			return Row{}, false, fmt.Errorf("reading spool segment %s: %w", r.seg.name(), err)
		}
		r.off += int64(len(line))
		r.line++
		if row, ok := decodeLine(line, Position{r.seg.gen, r.line}); ok {
			return row, true, nil
		}
	}
}

// position opens the file that holds the next unread line and returns where
// its whole rows end; ok is false when all is read.
func (r *Reader) position() (end int64, ok bool, err error) {
	for {
		seg, ok := r.s.segmentFor(r.seg, r.off, r.after)
		if !ok {
			return 0, false, nil
		}
		if r.file != nil && seg.start() == r.seg.start() {
			return seg.size, true, nil
		}
		file, err := openPrivate(filepath.Join(r.s.dir, seg.name()), os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) {
			continue // acknowledged in between
		}
		if err != nil {
			return 0, false, err
		}
		_ = r.Close()
		r.file, r.seg, r.off, r.line = file, seg, 0, seg.first-1
		return seg.size, true, nil
	}
}

// segmentFor returns the segment with the next unread bytes of a reader that
// has read current up to off.
func (s *Spool) segmentFor(current segment, off int64, after Position) (segment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments {
		switch {
		case current.gen != 0 && seg.start().Before(current.start()):
		case current.gen != 0 && seg.start() == current.start():
			if off < seg.size {
				return seg, true
			}
		case seg.size > 0 && (current.gen != 0 || after.Before(Position{seg.gen, seg.last})):
			return seg, true
		}
	}
	return segment{}, false
}

// readLine reads the line at off; whole rows end at end.
func readLine(file *os.File, off, end int64) ([]byte, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(file, off, end-off), 16<<10)
	line, err := r.ReadBytes('\n')
	if errors.Is(err, io.EOF) && !bytes.HasSuffix(line, []byte("\n")) {
		return nil, fmt.Errorf("row at byte %d is cut short", off)
	}
	return line, err
}
