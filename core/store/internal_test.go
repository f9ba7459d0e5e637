package store

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// A layout with records is backed up before it is changed, and is not changed
// under another user of it.
func TestMigration(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	old, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	rec := &Session{SessionID: "s1", Status: core.SessionStarting, RunSequence: 1, CreatedAt: now, LastActiveAt: now}
	if err := old.Update(t.Context(), func(tx *Tx) error { return tx.PutSession(rec) }); err != nil {
		t.Fatal(err)
	}
	before := migrations
	defer func() { migrations = before }()
	migrations = append(migrations[:len(migrations):len(migrations)], "ALTER TABLE sessions ADD COLUMN added TEXT")

	_, err = Open(t.Context(), path, nil)
	if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Open of an older layout in use = %v, want it refused", err)
	}
	if err := old.View(t.Context(), func(tx *Tx) error { _, err := tx.Session("s1"); return err }); err != nil {
		t.Errorf("the older build reads: %v", err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	backup := path + ".backup-v" + strconv.Itoa(len(before))
	if _, err := os.Lstat(backup); err == nil {
		t.Error("a refused migration left a backup")
	}
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("Open of an older layout: %v", err)
	}
	version, err := s.version(t.Context(), s.readDB)
	if err != nil || version != len(migrations) {
		t.Errorf("the layout is %d, %v, want %d", version, err, len(migrations))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	migrations = before
	info, err := os.Lstat(backup)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the backup is %v, %v, want a file of mode 600", info, err)
	}
	kept, err := Open(t.Context(), backup, nil)
	if err != nil {
		t.Fatalf("Open of the backup: %v", err)
	}
	defer func() { _ = kept.Close() }()
	if err := kept.View(t.Context(), func(tx *Tx) error { _, err := tx.Session("s1"); return err }); err != nil {
		t.Errorf("the backup lacks the record: %v", err)
	}
}

// A migration that fails leaves the layout as it was.
func TestFailedMigration(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	before := migrations
	defer func() { migrations = before }()
	migrations = append(migrations[:len(migrations):len(migrations)], "ALTER TABLE sessions ADD COLUMN added TEXT; ALTER TABLE none ADD COLUMN x TEXT")
	if _, err := Open(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), "migrating to version 2") {
		t.Errorf("Open = %v, want the failed step named", err)
	}
	migrations = before
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("Open with the old layout: %v", err)
	}
	_ = s.Close()
}

// shortWriter takes at most five bytes at a time.
type shortWriter struct{ w io.Writer }

func (s shortWriter) Write(p []byte) (int, error) { return s.w.Write(p[:min(len(p), 5)]) }

// Spec: A063.
func TestAppendJSONLShortWrites(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "rows.jsonl")
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			row := map[string]any{"writer": i, "text": strings.Repeat("x", 100)}
			if err := appendJSONL(path, row, func(f *os.File) io.Writer { return shortWriter{f} }); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for line := range strings.Lines(string(data)) {
		var row struct {
			Writer int
			Text   string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || len(row.Text) != 100 {
			t.Errorf("line %q: %v", line, err)
		}
		seen[row.Writer] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d intact records, want 12", len(seen))
	}
}

// fullDisk takes some bytes and then fails.
type fullDisk struct {
	w    io.Writer
	room int
}

var errFull = errors.New("no space left")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.room == 0 {
		return 0, errFull
	}
	n, err := d.w.Write(p[:min(len(p), d.room)])
	d.room -= n
	return n, err
}

// A write that fails in its middle leaves the lines that were there.
func TestAppendFullDisk(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "rows.jsonl")
	if err := AppendJSONL(path, map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	err := appendJSONL(path, map[string]int{"n": 2}, func(f *os.File) io.Writer { return &fullDisk{w: f, room: 3} })
	if !errors.Is(err, errFull) || core.KindOf(err) != core.KindOS {
		t.Errorf("appendJSONL = %v, want an OSError of the full disk", err)
	}
	err = appendJSONL(path, 3, func(*os.File) io.Writer { return stuckWriter{} })
	if !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("appendJSONL on a writer that takes nothing = %v, want a short write", err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "{\"n\":1}\n" {
		t.Errorf("the file holds %q, %v, want the first line", data, err)
	}
}

type stuckWriter struct{}

func (stuckWriter) Write([]byte) (int, error) { return 0, nil }

// After a failed write or sync nothing is acknowledged any more.
func TestLogGivesUp(t *testing.T) {
	for name, use := range map[string]func(*Log) error{
		"append": func(l *Log) error { return l.Append(1) },
		"sync":   func(l *Log) error { return l.Sync() },
	} {
		l, err := OpenLog(filepath.Join(testkit.PrivateDir(t), "log.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		good := l.file
		if l.file, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
		if err := l.file.Close(); err != nil { // every use of it fails
			t.Fatal(err)
		}
		first := use(l)
		l.file = good
		if first == nil || !errors.Is(l.Append(2), first) || !errors.Is(l.Sync(), first) {
			t.Errorf("%s: %v, then Append and Sync do not repeat it", name, first)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
