package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// defaultSegmentBytes is when a segment is full and the next one begins.
const defaultSegmentBytes = 4 << 20

// ErrLocked is wrapped by the error of Open when another process holds the
// spool.
var ErrLocked = errors.New("spool is held by another process")

// ErrClosed is returned by the methods of a closed spool.
var ErrClosed = errors.New("spool is closed")

// Options are what a Spool is made with; nil and zero fields are usable.
type Options struct {
	SegmentBytes int64            // 0: 4 MiB
	Now          func() time.Time // nil: time.Now
}

// Spool is an open spool. Its methods may be called from any goroutine; a slow
// Reader never holds up Append.
type Spool struct {
	dir   string
	limit int64
	now   func() time.Time
	lock  *os.File

	mu       sync.Mutex
	segments []segment     // in order; the last one is written
	file     *os.File      // of the last segment; nil before Begin
	last     Position      // newest row; Seq 0 when the generation has none
	changed  chan struct{} // closed and replaced by every Append
	torn     bool          // a killed writer's row was cut; Begin records it
	closed   bool
}

// segment is one file. Rows first..last are in its first size bytes.
type segment struct {
	gen         uint64
	first, last uint64 // last = first-1 when empty
	size        int64  // bytes of whole rows
}

// start is the position of the first row; it tells segments apart.
func (s segment) start() Position { return Position{s.gen, s.first} }

func (s segment) name() string { return fmt.Sprintf("%020d-%020d.jsonl", s.gen, s.first) }

// Open locks the spool in dir, makes the folder when it is missing, and cuts
// rows that a killed writer left unfinished. Rows can be read at once; Append
// needs Begin.
func Open(dir string, opts *Options) (*Spool, error) {
	s := &Spool{dir: dir, limit: defaultSegmentBytes, now: time.Now, changed: make(chan struct{})}
	if opts != nil {
		if opts.SegmentBytes > 0 {
			s.limit = opts.SegmentBytes
		}
		if opts.Now != nil {
			s.now = opts.Now
		}
	}
	if err := privateFolder(dir); err != nil {
		return nil, err
	}
	lock, err := openPrivate(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("locking spool %s: %w", dir, errors.Join(ErrLocked, err))
	}
	s.lock = lock
	if err := s.load(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

// Begin makes generation the one that Append writes to: the spool's newest, or
// a later one. Rows of the newest generation go on where they ended.
func (s *Spool) Begin(generation uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	newest := s.last.Generation
	if n := len(s.segments); n > 0 {
		newest = s.segments[n-1].gen
	}
	if generation < newest || generation == 0 {
		return fmt.Errorf("spool %s is at generation %d, later than %d", s.dir, newest, generation)
	}
	if s.file != nil && generation == newest {
		return nil
	}
	next := uint64(1)
	if generation == newest && len(s.segments) > 0 {
		next = s.segments[len(s.segments)-1].last + 1
	}
	s.last = Position{Generation: generation, Seq: next - 1}
	if err := s.rotateLocked(); err != nil || !s.torn {
		return err
	}
	s.torn = false
	_, err := s.appendLocked(Hole, holeMessage("the row that was being written when the host died was cut"), false)
	return err
}

// Append writes a row and returns it. The row is in the page cache when it
// returns, and on the disk when sync is set.
func (s *Spool) Append(direction Direction, message json.RawMessage, sync bool) (Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.appendLocked(direction, message, sync)
}

func (s *Spool) appendLocked(direction Direction, message json.RawMessage, sync bool) (Row, error) {
	switch {
	case s.closed:
		return Row{}, ErrClosed
	case s.file == nil:
		return Row{}, fmt.Errorf("spool %s has no generation yet", s.dir)
	}
	row := Row{
		Generation: s.last.Generation, Seq: s.last.Seq + 1,
		At: s.now().UnixNano(), Direction: direction, Message: message,
	}
	line, err := row.line()
	if err != nil {
		return Row{}, err
	}
	current := &s.segments[len(s.segments)-1]
	if current.size > 0 && current.size+int64(len(line)) > s.limit {
		if err := s.rotateLocked(); err != nil {
			return Row{}, err
		}
		current = &s.segments[len(s.segments)-1]
	}
	if err := s.writeLocked(current, line); err != nil {
		return Row{}, err
	}
	if sync {
		if err := s.file.Sync(); err != nil {
			return Row{}, fmt.Errorf("syncing spool %s: %w", s.dir, err)
		}
	}
	current.last, s.last = row.Seq, row.Position()
	s.wakeLocked()
	return row, nil
}

// writeLocked writes a whole line behind the last whole one. After a failure
// the torn part is overwritten by the next row.
func (s *Spool) writeLocked(current *segment, line []byte) error {
	n, err := s.file.WriteAt(line, current.size) // loops over short writes
	if err != nil {
		_ = s.file.Truncate(current.size)
		return fmt.Errorf("writing %d of %d bytes to spool %s: %w", n, len(line), s.dir, err)
	}
	current.size += int64(len(line))
	return nil
}

// rotateLocked begins the segment of the next row.
func (s *Spool) rotateLocked() error {
	next := segment{gen: s.last.Generation, first: s.last.Seq + 1, last: s.last.Seq}
	// An empty segment of that name may be left from an earlier process.
	file, err := openPrivate(filepath.Join(s.dir, next.name()), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if s.file != nil {
		err := s.file.Sync()
		_ = s.file.Close()
		if err != nil {
			_ = file.Close()
			return fmt.Errorf("syncing spool %s: %w", s.dir, err)
		}
	}
	s.file = file
	if n := len(s.segments); n > 0 && s.segments[n-1].start() == next.start() {
		s.segments = s.segments[:n-1]
	}
	s.segments = append(s.segments, next)
	return nil
}

// Last returns the newest row's position; its Seq is 0 when the generation has
// no row yet.
func (s *Spool) Last() Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Acknowledge deletes the segments whose rows all lie at or before through.
// The segment that is being written stays.
func (s *Spool) Acknowledge(through Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for len(s.segments) > 1 {
		oldest := s.segments[0]
		if through.Before(Position{oldest.gen, oldest.last}) {
			return nil
		}
		if err := os.Remove(filepath.Join(s.dir, oldest.name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("deleting acknowledged rows: %w", err)
		}
		s.segments = s.segments[1:]
	}
	return nil
}

// Close ends the spool and wakes its readers. It is idempotent.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.wakeLocked()
	var err error
	if s.file != nil {
		err = errors.Join(s.file.Sync(), s.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

func (s *Spool) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
