package gatewayplugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/codex-mmo/codex-mmo/core"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// telemetryLog is a tenant's telemetry: one row a line, JSON of a
// TelemetryEvent with a sequence number that never goes back, also not in the
// next gateway.
//
//	{"seq":"7","recorded_at_ns":"1796070937904000000","agent_ref":"ar_…","route":"…","outcome":"completed",…}
type telemetryLog struct {
	mu      sync.Mutex
	file    *os.File
	seq     uint64        // of the last row
	size    int64         // bytes that hold whole rows
	durable int64         // bytes known to be on disk; only these are read
	changed chan struct{} // closed and replaced when durable grows
	closed  bool
	syncing sync.Mutex // one fsync at a time
}

// privateFolder makes a folder that only its owner may enter.
func privateFolder(dir string) error {
	if !filepath.IsAbs(dir) {
		return core.Errorf(core.KindValue, "the gateway's state folder %q is no absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return core.Errorf(core.KindOS, "make the gateway's state folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return core.Errorf(core.KindOS, "look at the gateway's state folder: %w", err)
	}
	if !info.IsDir() {
		return core.Errorf(core.KindOS, "the gateway's state folder %s is no folder", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return core.Errorf(core.KindOS, "make the gateway's state folder private: %w", err)
	}
	return nil
}

// openTelemetry opens a tenant's file, cuts a torn last line, and goes on
// after the last row. each is called with every row that is there.
func openTelemetry(dir, session string, each func(*gatewaypb.TelemetryEvent)) (*telemetryLog, error) {
	path := filepath.Join(dir, "telemetry-"+session+".jsonl")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open telemetry: %w", err)
	}
	log := &telemetryLog{file: file, changed: make(chan struct{})}
	if err := log.recover(each); err != nil {
		return nil, errors.Join(core.Errorf(core.KindOS, "open telemetry %s: %w", path, err), file.Close())
	}
	return log, nil
}

func (l *telemetryLog) recover(each func(*gatewaypb.TelemetryEvent)) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another gateway writes it")
	}
	if err := l.file.Chmod(0o600); err != nil {
		return err
	}
	rows := newRowReader(io.NewSectionReader(l.file, 0, info.Size()))
	for {
		row, err := rows.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		l.seq = max(l.seq, row.GetSeq())
		each(row)
	}
	l.size, l.durable = rows.offset, rows.offset
	if l.size == info.Size() {
		return nil
	}
	return l.file.Truncate(l.size)
}

// append writes a row and gives it its number. The row survives the end of
// this process then; sync makes it survive the machine's.
func (l *telemetryLog) append(row *gatewaypb.TelemetryEvent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return core.Errorf(core.KindRuntime, "record telemetry: the tenant was released")
	}
	row.Seq = l.seq + 1
	line, err := encodeRow(row)
	if err != nil {
		return core.Errorf(core.KindRuntime, "encode telemetry: %w", err)
	}
	if _, err := l.file.Write(line); err != nil {
		_ = l.file.Truncate(l.size) // what was written of it; recover cuts it otherwise
		return core.Errorf(core.KindOS, "write telemetry: %w", err)
	}
	l.seq++
	l.size += int64(len(line))
	return nil
}

// encodeRow returns a row's line. protojson puts in spaces at random, so that
// nobody relies on its output; a file's rows are compact.
func encodeRow(row *gatewaypb.TelemetryEvent) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(row)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, err
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

// sync brings what was written to disk, and then shows it to readers.
func (l *telemetryLog) sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	size, done := l.size, l.closed || l.durable == l.size
	l.mu.Unlock()
	if done {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return core.Errorf(core.KindOS, "sync telemetry: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable = size
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// close syncs, ends all readers and closes the file.
func (l *telemetryLog) close() {
	_ = l.sync() // a row that is not on disk is not shown; there is nobody left to tell
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.changed)
	l.changed = make(chan struct{})
	_ = l.file.Close() // synced above
}

// read calls send for every durable row after a sequence number. With follow
// it waits for more, until ctx ends or the log is closed.
func (l *telemetryLog) read(ctx context.Context, after uint64, follow bool, send func(*gatewaypb.TelemetryEvent) error) error {
	// Whoever asks after the end of a turn shall see its row.
	if err := l.sync(); err != nil {
		return statusOf(err)
	}
	var offset int64
	for {
		l.mu.Lock()
		durable, changed, closed := l.durable, l.changed, l.closed
		l.mu.Unlock()
		if closed {
			return nil
		}
		rows := newRowReader(io.NewSectionReader(l.file, offset, durable-offset))
		for {
			row, err := rows.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return statusOf(core.Errorf(core.KindOS, "read telemetry: %w", err))
			}
			if row.GetSeq() <= after {
				continue
			}
			if err := send(row); err != nil {
				return err
			}
		}
		offset = durable
		if !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// rowReader reads the whole rows of a file and ends at a torn one.
type rowReader struct {
	src    *bufio.Reader
	offset int64 // after the last whole row
}

func newRowReader(src io.Reader) *rowReader { return &rowReader{src: bufio.NewReader(src)} }

func (r *rowReader) next() (*gatewaypb.TelemetryEvent, error) {
	line, err := r.src.ReadBytes('\n')
	if err != nil {
		return nil, err // io.EOF: what is left has no end, so it is no row
	}
	row := &gatewaypb.TelemetryEvent{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(bytes.TrimSpace(line), row); err != nil {
		return nil, core.Errorf(core.KindOS, "the row at byte %d can't be read: %w", r.offset, err)
	}
	r.offset += int64(len(line))
	return row, nil
}
