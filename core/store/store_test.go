package store_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

var created = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

// open opens a store in a new private folder.
func open(t *testing.T) (*store.Store, string) {
	t.Helper()
	path := filepath.Join(testkit.PrivateDir(t), "state.db")
	return reopen(t, path), path
}

func reopen(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a second Close in a test is harmless
	return s
}

func session(id string) *store.Session {
	return &store.Session{
		SessionID: id, ProfileID: "demo", ProfileVersion: "1", Kind: "noninteractive", Workspace: "/work/" + id,
		RootAgent: "lead", Status: core.SessionStarting, CurrentRunID: "run-000001-" + id, RunSequence: 1,
		CreatedAt: created, LastActiveAt: created,
	}
}

func run(session string) *store.Run {
	return &store.Run{
		RunID: "run-000001-" + session, SessionID: session, Sequence: 1, Kind: store.RunInitial,
		Status: core.SessionStarting, CreatedAt: created,
	}
}

func job(id, session string) *store.Job {
	return &store.Job{
		JobID: id, SessionID: session, ProfileID: "demo", AgentRef: "ar_" + id, Agent: "reader", BatchID: "batch-1",
		Depth: 1, Mode: "read-only", Cwd: "/work", Status: core.JobQueued, CreatedAt: created,
	}
}

func agentRun(ref, session, job string) *store.AgentRun {
	return &store.AgentRun{AgentRef: ref, SessionID: session, JobID: job, Agent: "reader", EvidenceComplete: true}
}

func update(t *testing.T, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func view(t *testing.T, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// seed puts a session with its run, a job and both agent runs into the store.
func seed(t *testing.T, s *store.Store, id string) {
	t.Helper()
	update(t, s, func(tx *store.Tx) error {
		return all(
			tx.PutSession(session(id)),
			tx.InsertRun(run(id)),
			tx.PutAgentRun(agentRun("ar_root-"+id, id, "")),
			tx.PutJob(job("j-"+id, id)),
			tx.PutAgentRun(agentRun("ar_j-"+id, id, "j-"+id)),
		)
	})
}

func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// damage runs SQL on the database file behind the store's back, with
// constraints off.
func damage(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// weaken rebuilds a table without types and constraints, as a damaged or
// foreign file might have it, so that any value fits any column.
func weaken(t *testing.T, path, table string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(dump(t, path, "pragma_table_info('"+table+"')")) {
		if name, ok := strings.CutPrefix(line, "name="); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	damage(t, path,
		"CREATE TABLE weak ("+strings.Join(names, ", ")+")",
		"INSERT INTO weak SELECT * FROM "+table,
		"DROP TABLE "+table,
		"PRAGMA legacy_alter_table = ON", // a view over the table stays as it is
		"ALTER TABLE weak RENAME TO "+table)
}

// dump returns all rows of a table as text, to prove that nothing touched it.
func dump(t *testing.T, path, table string) string {
	t.Helper()
	return query(t, path, "SELECT * FROM "+table)
}

// query returns the rows of a query as text: name=value, a line each.
func query(t *testing.T, path, sqlText string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), sqlText)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for rows.Next() {
		values, pointers := make([]sql.RawBytes, len(names)), make([]any, len(names))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			out.WriteString(names[i] + "=" + string(v) + "\n")
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wantError checks the kind and a part of the text.
func wantError(t *testing.T, what string, err error, kind core.Kind, text string) {
	t.Helper()
	if core.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v (%s), want a %s with %q", what, err, core.KindOf(err), kind, text)
	}
}

// Spec: R007 (readers are pure).
func TestReadersChangeNothing(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	update(t, s, func(tx *store.Tx) error {
		rec := session("s1")
		rec.Status = core.SessionRunning
		root := agentRun("ar_root-s1", "s1", "")
		root.Engine = store.Process{PID: 999999, StartToken: "1", BootID: "long gone"} // a dead root
		return all(tx.PutSession(rec), tx.PutAgentRun(root))
	})
	before := dump(t, path, "sessions") + dump(t, path, "agent_runs")
	view(t, s, func(tx *store.Tx) error {
		rec, err := tx.Session("s1")
		if err != nil {
			return err
		}
		list, err := tx.Sessions(store.SessionFilter{Strict: true})
		if err != nil {
			return err
		}
		if rec.Status != core.SessionRunning || len(list) != 1 || list[0].Status != core.SessionRunning {
			t.Errorf("Session has status %s, Sessions %v, want running in both", rec.Status, list)
		}
		return nil
	})
	if after := dump(t, path, "sessions") + dump(t, path, "agent_runs"); after != before {
		t.Errorf("reading changed the rows:\n%s\nwas\n%s", after, before)
	}
	err := s.View(t.Context(), func(tx *store.Tx) error { return tx.PutSession(session("s2")) })
	wantError(t, "writing in a View", err, core.KindOS, "readonly")
}

func TestUpdateIsWhole(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		rec := session("s1")
		rec.Status = core.SessionRunning
		return all(tx.PutSession(rec), core.Errorf(core.KindRuntime, "changed my mind"))
	})
	wantError(t, "Update", err, core.KindRuntime, "changed my mind")
	view(t, s, func(tx *store.Tx) error {
		rec, err := tx.Session("s1")
		if err == nil && rec.Status != core.SessionStarting {
			t.Errorf("status after a failed Update = %s, want starting", rec.Status)
		}
		return err
	})
	err = s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutJob(job("j9", "nobody")) })
	wantError(t, "a job of no session", err, core.KindValue, "FOREIGN KEY")
}

func TestCanceled(t *testing.T) {
	s, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"View":   s.View(ctx, func(*store.Tx) error { return nil }),
		"Update": s.Update(ctx, func(*store.Tx) error { return nil }),
	} {
		if err == nil {
			t.Errorf("%s with an ended context = nil, want an error", what)
		}
	}
	update(t, s, func(*store.Tx) error { return nil }) // the queue is free again
}

func TestFilesArePrivate(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	for _, suffix := range []string{"", "-wal", "-shm", ".lock", ".users"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("state.db%s has mode %o, want 600", suffix, info.Mode().Perm())
		}
	}
	link := filepath.Join(filepath.Dir(path), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), link, nil)
	wantError(t, "Open of a symbolic link", err, core.KindOS, "symbolic link")
}
