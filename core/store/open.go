package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// Open opens the database at path, made when it is absent, in a folder that
// exists and is the caller's own. It brings an older layout up to date after a
// backup; a newer one of the same state package is used as it is, because
// layouts only add. After an unclean end the file is checked first; one that
// fails is named and left untouched.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	if err := folders.CheckFilesystem(filepath.Dir(path)); err != nil {
		return nil, err
	}
	db, err := openPrivate(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	_ = db.Close() // SQLite opens it by itself; it gives -wal and -shm the same mode
	users, err := openPrivate(path+".users", os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	lock, err := openPrivate(path+".lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		_ = users.Close()
		return nil, err
	}
	s := &Store{path: path, queue: newQueue(lock), users: users}
	// The driver's Open connects to nothing and fails only without a driver,
	// which this package imports.
	s.readDB, _ = sql.Open("sqlite", dsn(path, opts.busyTimeout(), false))
	s.write, _ = sql.Open("sqlite", dsn(path, opts.busyTimeout(), true))
	s.readDB.SetMaxOpenConns(4)
	s.write.SetMaxOpenConns(1)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare checks the file when it must, and brings its layout up to date.
func (s *Store) prepare(ctx context.Context) error {
	if err := s.checkAfterUncleanEnd(ctx); err != nil {
		return err
	}
	version, err := s.version(ctx, s.readDB)
	if err != nil || version >= len(migrations) {
		return err
	}
	unlock, err := s.queue.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.migrate(ctx)
}

// checkAfterUncleanEnd runs SQLite's check when the last user of the file did
// not end well: the write-ahead log is still there, which the last one to close
// removes, and nobody else has the file open. It ends with this process
// registered as a user.
func (s *Store) checkAfterUncleanEnd(ctx context.Context) error {
	fd := int(s.users.Fd())
	alone := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil
	if alone {
		if wal, err := os.Lstat(s.path + "-wal"); err == nil && wal.Size() > 0 {
			if err := s.quickCheck(ctx); err != nil {
				return err
			}
		}
	}
	// From exclusive to shared; or shared at once, after a short wait while
	// another process that just opened it checks the file.
	if err := flockWait(s.users, unix.LOCK_SH); err != nil {
		return core.Errorf(core.KindOS, "locking %s: %w", s.users.Name(), err)
	}
	return nil
}

// quickCheck reads the whole file through a connection of its own that is
// read-only, so that closing it does not fold the log into a damaged file.
func (s *Store) quickCheck(ctx context.Context) (err error) {
	db, err := sql.Open("sqlite", fileURI(s.path, url.Values{"mode": {"ro"}}))
	if err != nil {
		return s.wrap(err, "checking")
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return s.wrap(err, "checking")
	}
	if verdict != "ok" {
		return damaged(s.path, verdict)
	}
	return nil
}

func (s *Store) version(ctx context.Context, db *sql.DB) (int, error) {
	var version int
	err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, s.wrap(err, "reading the version")
}

// migrate applies the missing steps, each in its own transaction. The caller
// holds the queue. A layout that already has records is backed up first.
func (s *Store) migrate(ctx context.Context) error {
	version, err := s.version(ctx, s.write)
	if err != nil {
		return err
	}
	if version > 0 && version < len(migrations) {
		if err := s.aloneForMigration(version); err != nil {
			return err
		}
		if err := s.backup(ctx, version); err != nil {
			return err
		}
	}
	for ; version < len(migrations); version++ {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return s.wrap(err, "migrating")
		}
		_, err = tx.ExecContext(ctx, migrations[version])
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
		}
		if err != nil {
			return errors.Join(s.wrap(err, fmt.Sprintf("migrating to version %d", version+1)), tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return s.wrap(err, "migrating")
		}
	}
	return nil
}

// aloneForMigration refuses to change the layout under a process that was
// started with the old one. New users wait for the migration on the queue.
func (s *Store) aloneForMigration(version int) error {
	if err := unix.Flock(int(s.users.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return nil
	}
	if err := flockWait(s.users, unix.LOCK_SH); err != nil { // the failed try may have given it up
		return core.Errorf(core.KindOS, "locking %s: %w", s.users.Name(), err)
	}
	return core.Errorf(core.KindRuntime,
		"store %s has layout %d and is in use, so it can't be brought to layout %d now", s.path, version, len(migrations)).
		WithRemedy("end the sessions of the older build, or go on with that build")
}

// backup copies the database to <path>.backup-v<version>. One that is there
// already is kept: it is from before an earlier try.
func (s *Store) backup(ctx context.Context, version int) error {
	target := fmt.Sprintf("%s.backup-v%d", s.path, version)
	f, err := openPrivate(target, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	if _, err := s.write.ExecContext(ctx, "VACUUM INTO ?", target); err != nil {
		return s.wrap(err, "backing up to "+target)
	}
	return SyncDir(filepath.Dir(target))
}

// openPrivate opens or makes a regular file of our own with mode 0600. It
// follows no symbolic link.
func openPrivate(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return nil, core.Errorf(core.KindOS, "%s is a symbolic link, which is refused: %w", path, err)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, core.Errorf(core.KindNotFound, "opening %s: %w", path, err)
		}
		return nil, core.Errorf(core.KindOS, "opening %s: %w", path, err)
	}
	if err := checkPrivate(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkPrivate refuses a file that others may have put in our place, and takes
// away what the umask left to others.
func checkPrivate(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return core.Errorf(core.KindOS, "checking %s: %w", f.Name(), err)
	}
	stat, ok := info.Sys().(*unixStat)
	if !info.Mode().IsRegular() || !ok || int(stat.Uid) != os.Geteuid() || stat.Nlink != 1 {
		return core.Errorf(core.KindOS, "%s is refused: it must be a regular file of this user with one name", f.Name())
	}
	if info.Mode().Perm() != 0o600 {
		if err := f.Chmod(0o600); err != nil {
			return core.Errorf(core.KindOS, "making %s private: %w", f.Name(), err)
		}
	}
	return nil
}

// fileURI names a database file and the driver's settings for it.
func fileURI(path string, query url.Values) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}
