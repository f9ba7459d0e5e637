package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/codex-mmo/codex-mmo/core"
)

// ErrTakenOver is in the chain of UpdateAs's refusal of a supervisor that is no
// longer the session's.
var ErrTakenOver = errors.New("session was taken over")

// Options tune a store. Nil is valid.
type Options struct {
	// BusyTimeout is how long a transaction waits for another process that
	// holds SQLite's own lock; 0 means 10 s. Writers queue before that on the
	// lock file, without a limit of their own.
	BusyTimeout time.Duration
}

func (o *Options) busyTimeout() time.Duration {
	if o == nil || o.BusyTimeout == 0 {
		return 10 * time.Second
	}
	return o.BusyTimeout
}

// Store is an open database. It is safe for concurrent use; any number of
// processes may have the same one open.
type Store struct {
	path   string
	readDB *sql.DB
	write  *sql.DB // one connection
	queue  *queue
	users  *os.File // shared flock while open
}

// Close releases the database. Transactions under way fail.
func (s *Store) Close() error {
	return errors.Join(s.readDB.Close(), s.write.Close(), s.queue.close(), s.users.Close())
}

// View runs fn in one read transaction, which sees one state of the database
// from its first read on. It must be short (under a second) and do no other
// work, because it keeps the write-ahead log from being folded in.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	tx, err := s.readDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.wrap(err, "beginning to read")
	}
	defer func() { _ = tx.Rollback() }() // a read has nothing to commit
	return fn(&Tx{store: s, ctx: ctx, tx: tx})
}

// Update runs fn in one write transaction. When it returns nil, everything fn
// did is on disk; otherwise nothing is. Writers of all processes queue for it
// in order of arrival.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	unlock, err := s.queue.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return s.wrap(err, "beginning to write")
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(&Tx{store: s, ctx: ctx, tx: tx}); err != nil {
		return err
	}
	return s.wrap(tx.Commit(), "committing")
}

// UpdateAs is Update for the supervisor that took the session over with this
// epoch. It fails with KindRuntime when another one has taken it over since.
func (s *Store) UpdateAs(ctx context.Context, session string, epoch uint64, fn func(*Tx) error) error {
	return s.Update(ctx, func(tx *Tx) error {
		current, err := tx.epoch(session)
		if err != nil {
			return err
		}
		if current != epoch {
			return core.Errorf(core.KindRuntime, "%w: %s is at epoch %d, this supervisor has %d", ErrTakenOver, session, current, epoch)
		}
		return fn(tx)
	})
}

// TakeOver makes the caller the only one that may write the session's records
// through UpdateAs, and returns its epoch. A session whose row can't be read
// is refused and left alone.
func (s *Store) TakeOver(ctx context.Context, session string) (epoch uint64, err error) {
	err = s.Update(ctx, func(tx *Tx) error {
		if _, err := tx.Session(session); err != nil {
			return err
		}
		current, err := tx.epoch(session)
		if err != nil {
			return err
		}
		epoch = current + 1
		return tx.exec("UPDATE sessions SET epoch = ? WHERE session_id = ?", int64(epoch), session)
	})
	return epoch, err
}

// Tx is one transaction. It is valid until the function that it was given to
// returns, and for one goroutine.
type Tx struct {
	store *Store
	ctx   context.Context // the transaction's own lifetime
	tx    *sql.Tx
}

func (t *Tx) exec(query string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, query, args...)
	return t.store.wrap(err, "writing")
}

func (t *Tx) epoch(session string) (uint64, error) {
	var epoch int64
	err := t.tx.QueryRowContext(t.ctx, "SELECT epoch FROM sessions WHERE session_id = ?", session).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, core.Errorf(core.KindNotFound, "no session %q", session)
	}
	return uint64(epoch), t.store.wrap(err, "reading the epoch")
}

// wrap gives a driver's error our kind. Damage is named with the file, which
// is left untouched.
func (s *Store) wrap(err error, doing string) error {
	var own *core.Error
	var driver *sqlite.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &driver):
		if code := driver.Code() & 0xff; code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB {
			return damaged(s.path, driver.Error())
		}
		if driver.Code()&0xff == sqlite3.SQLITE_CONSTRAINT {
			return core.Errorf(core.KindValue, "store %s: %s: %w", s.path, doing, err)
		}
	}
	return core.Errorf(core.KindOS, "store %s: %s: %w", s.path, doing, err)
}

func damaged(path, what string) error {
	return core.Errorf(core.KindOS, "store %s failed its integrity check: %s", path, what).
		WithRemedy("it was left untouched; restore a backup %s.backup-* or move it away", path)
}

// dsn returns the data source name of one kind of connection. Pragmas hold
// for each connection, so they stand here.
func dsn(path string, busy time.Duration, writer bool) string {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"foreign_keys(1)",
		"synchronous(FULL)",
		"trusted_schema(0)",
	}}
	if writer {
		query.Add("_pragma", "journal_mode(WAL)")
		query.Set("_txlock", "immediate")
	} else {
		query.Add("_pragma", "query_only(1)")
	}
	return fileURI(path, query)
}
