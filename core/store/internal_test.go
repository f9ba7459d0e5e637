package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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

// A database of the first layout, with a session at work in which a job writes,
// is brought up to date with its records; the job has the whole workspace, since
// its scopes are not on record.
func TestMigrationFromTheFirstLayout(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	db, err := sql.Open("sqlite", dsn(path, time.Second, true))
	if err != nil {
		t.Fatal(err)
	}
	stamp := stampTime(now)
	for _, q := range []struct {
		text string
		args []any
	}{
		{migrations[0], nil},
		{"PRAGMA user_version = 1", nil},
		{`INSERT INTO sessions (session_id, schema_version, package_version, status, profile_id, workspace, created_at, last_active_at, payload)
			VALUES ('s1', 2, '1.0.0', 'running', 'p', '/w', ?, ?, ?)`, []any{stamp, stamp, fmt.Sprintf(
			`{"schema_version":2,"package_version":"1.0.0","session_id":"s1","profile_id":"p","workspace":"/w","status":"running","run_sequence":1,"created_at":%q,"last_active_at":%[1]q}`, stamp)}},
		{`INSERT INTO jobs (job_id, session_id, schema_version, package_version, profile_id, agent_ref, agent, status, mode, payload)
			VALUES ('j1', 's1', 2, '1.0.0', 'p', 'ar_1', 'a', 'running', 'workspace-write', ?)`, []any{fmt.Sprintf(
			`{"schema_version":2,"package_version":"1.0.0","job_id":"j1","session_id":"s1","profile_id":"p","agent_run_ref":"ar_1","agent":"a","status":"running","mode":"workspace-write","created_at":%q}`, stamp)}},
		{`INSERT INTO agent_runs (agent_ref, session_id, job_id, schema_version, package_version, retired, payload)
			VALUES ('ar_1', 's1', 'j1', 2, '1.0.0', 0, '{"schema_version":2,"package_version":"1.0.0","agent_run_ref":"ar_1","session_id":"s1","job_id":"j1"}')`, nil},
	} {
		if _, err := db.ExecContext(t.Context(), q.text, q.args...); err != nil {
			t.Fatalf("%s: %v", q.text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("Open of the first layout: %v", err)
	}
	defer func() { _ = s.Close() }()
	if _, err := os.Lstat(path + ".backup-v1"); err != nil {
		t.Errorf("there is no backup: %v", err)
	}
	var holders []Holder
	err = s.Update(t.Context(), func(tx *Tx) (err error) {
		if holders, err = tx.Accounting(); err != nil {
			return err
		}
		j, err := tx.Job("j1")
		if err != nil {
			return err
		}
		j.Lease, j.LockKey, j.Units = Lease{Paths: []string{"/w/a"}}, "k", 1
		return tx.PutJob(j)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(holders) != 2 || holders[1].JobID != "j1" || len(holders[1].Scopes) != 1 || holders[1].Scopes[0] != "/w" || holders[1].Class != ClassHeld {
		t.Errorf("holders = %+v, want the root, and the job with the whole workspace", holders)
	}
	err = s.View(t.Context(), func(tx *Tx) (err error) {
		holders, err = tx.Accounting()
		return err
	})
	if err != nil || len(holders) != 2 || holders[1].Scopes[0] != "/w/a" || holders[1].Units != 1 {
		t.Errorf("after a write the holders are %+v, %v", holders, err)
	}
}

// A migration that fails leaves the layout as it was.
func TestFailedMigration(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	before := migrations
	defer func() { migrations = before }()
	migrations = append(migrations[:len(migrations):len(migrations)], "ALTER TABLE sessions ADD COLUMN added TEXT; ALTER TABLE none ADD COLUMN x TEXT")
	if _, err := Open(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migrating to version %d", len(migrations))) {
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

// Lines that are appended at the same time come one after the other, each whole,
// also when the system takes a few bytes at a time.
//
// Spec: A063 (short writes; that there is one writer, TestLog shows)
func TestAppendShortWrites(t *testing.T) {
	l := openedLog(t)
	l.out = shortWriter{l.file}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			row := map[string]any{"writer": i, "text": strings.Repeat("x", 100)}
			if err := l.Append(row); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for line := range strings.Lines(contentOf(t, l)) {
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

func openedLog(t *testing.T) *Log {
	t.Helper()
	l, err := OpenLog(filepath.Join(testkit.PrivateDir(t), "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// contentOf returns the file's text, which must be as long as the log says.
func contentOf(t *testing.T, l *Log) string {
	t.Helper()
	data, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != l.Size() {
		t.Errorf("the file has %d bytes, the log says %d", len(data), l.Size())
	}
	return string(data)
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
	for name, tt := range map[string]struct {
		out  func(*os.File) io.Writer
		want error
	}{
		"a full disk":               {func(f *os.File) io.Writer { return &fullDisk{w: f, room: 3} }, errFull},
		"a file that takes nothing": {func(*os.File) io.Writer { return stuckWriter{} }, io.ErrShortWrite},
	} {
		l := openedLog(t)
		if err := l.Append(map[string]int{"n": 1}); err != nil {
			t.Fatal(err)
		}
		l.out = tt.out(l.file)
		if err := l.Append(map[string]int{"n": 2}); !errors.Is(err, tt.want) || core.KindOf(err) != core.KindOS {
			t.Errorf("Append on %s = %v, want an OSError of %v", name, err, tt.want)
		}
		l.out = l.file
		if err := l.Append(3); !errors.Is(err, tt.want) {
			t.Errorf("Append after %s = %v, want the same error again", name, err)
		}
		if got := contentOf(t, l); got != "{\"n\":1}\n" {
			t.Errorf("after %s the file holds %q, want the first line", name, got)
		}
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
