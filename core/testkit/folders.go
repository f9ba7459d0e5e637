package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// KeepEnv names the environment variable that, when set, keeps the folders of
// failed tests for a look at them.
const KeepEnv = "MMO_TEST_KEEP"

// PrivateDir returns a new folder of mode 0700 whose parents are no more open
// than the user's own cache folder. t.TempDir lies below a world-writable
// folder, which the product refuses. The path is short enough for unix sockets
// and holds no symbolic link. The folder is removed when the test ends.
func PrivateDir(t testing.TB) string {
	t.Helper()
	base := baseDir(t)
	dir, err := os.MkdirTemp(base, "t")
	if err != nil {
		t.Fatalf("making a private folder: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(KeepEnv) != "" {
			t.Logf("kept %s", dir)
			return
		}
		if err := removeAll(dir); err != nil {
			t.Errorf("removing a private folder: %v", err)
		}
	})
	return dir
}

// baseDir returns the folder that all folders of the kit lie in.
func baseDir(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("no user cache folder: %v; set HOME", err)
	}
	base := filepath.Join(cache, "codex-mmo-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatalf("making the base of private folders: %v", err)
	}
	base, err = filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatalf("resolving the base of private folders: %v", err)
	}
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatalf("closing the base of private folders: %v", err)
	}
	return base
}

// removeAll removes dir even when folders below it were made read-only.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	unlock := func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	}
	return errors.Join(filepath.WalkDir(dir, unlock), os.RemoveAll(dir))
}
