package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Log is a JSONL file with one writer: each line is one compact strict JSON
// value. It is safe for concurrent use.
type Log struct {
	path string

	mu     sync.Mutex // over all below
	file   *os.File
	out    io.Writer // the file; tests put one before it that takes little
	size   int64     // bytes; all whole lines
	failed error     // first write or sync that failed; the log takes nothing after it
}

// OpenLog opens the log for its one writer, made when it is absent. A second
// writer is refused with KindRuntime while the first lives. A torn last line,
// left by a crash in the middle of a write, is cut off.
func OpenLog(path string) (*Log, error) {
	f, err := openPrivate(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	log, err := ownLog(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return log, nil
}

func ownLog(f *os.File) (*Log, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, core.Errorf(core.KindRuntime, "%s has a writer already", f.Name())
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "locking %s: %w", f.Name(), err)
	}
	size, err := cutTornLine(f)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "repairing %s: %w", f.Name(), err)
	}
	return &Log{path: f.Name(), file: f, out: f, size: size}, nil
}

// Append adds one line. When it fails the log holds the lines it had before.
// After a failed write or sync the log is given up: what the disk has is then
// unknown, and every later call returns that error.
func (l *Log) Append(v any) error {
	line, err := encodeLine(l.path, v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	n, err := appendAt(l.file, l.size, line, l.out)
	l.size += n
	if err != nil {
		l.failed = core.Errorf(core.KindOS, "appending to %s: %w", l.path, err)
	}
	return l.failed
}

// Sync brings all appended lines to disk.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if err := l.file.Sync(); err != nil {
		l.failed = core.Errorf(core.KindOS, "syncing %s: %w", l.path, err)
	}
	return l.failed
}

// Last decodes the last line into v, strictly, and reports whether there is
// one.
func (l *Log) Last(v any) (found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == 0 {
		return false, nil
	}
	start, err := lineEnd(l.file, l.size-1)
	if err != nil {
		return false, core.Errorf(core.KindOS, "reading %s: %w", l.path, err)
	}
	line := make([]byte, l.size-start)
	if _, err := l.file.ReadAt(line, start); err != nil {
		return false, core.Errorf(core.KindOS, "reading %s: %w", l.path, err)
	}
	if err := strictjson.Unmarshal(line, v, nil); err != nil {
		return false, core.Errorf(core.KindValue, "the last line of %s is not valid: %w", l.path, err)
	}
	return true, nil
}

// Size returns how many bytes of whole lines the log has.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Close lets the next writer in. It does not sync.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

func encodeLine(path string, v any) ([]byte, error) {
	line, err := strictjson.Marshal(v)
	if err != nil {
		return nil, core.Errorf(core.KindValue, "a line for %s can't be written as JSON: %w", path, err)
	}
	return append(line, '\n'), nil
}

// appendAt writes the whole line at the end of the file, which has size bytes,
// and returns how many it added: all or, on an error, none.
func appendAt(f *os.File, size int64, line []byte, w io.Writer) (int64, error) {
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return 0, err
	}
	for rest := line; len(rest) > 0; {
		n, err := w.Write(rest)
		if err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return 0, errors.Join(err, f.Truncate(size))
		}
		rest = rest[n:]
	}
	return int64(len(line)), nil
}

// cutTornLine truncates the file after its last line feed and returns its
// size.
func cutTornLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err := lineEnd(f, info.Size())
	if err != nil || end == info.Size() {
		return end, err
	}
	return end, f.Truncate(end)
}

// lineEnd returns the position after the last line feed before end, or 0.
func lineEnd(f *os.File, end int64) (int64, error) {
	block := make([]byte, min(end, 64<<10))
	for end > 0 {
		from := max(0, end-int64(len(block)))
		part := block[:end-from]
		if _, err := f.ReadAt(part, from); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}
