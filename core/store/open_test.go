package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// A database file that is damaged refuses everything, is named and is left as
// it is: with its header gone, and with a page broken after an unclean end.
func TestDamagedFile(t *testing.T) {
	for name, tc := range map[string]struct {
		at  int64
		wal bool
	}{
		"header": {at: 0},
		"page":   {at: 4096 * 2, wal: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := open(t)
			seed(t, s, "s1")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(bytes.Repeat([]byte{0x5a}, 2048), tc.at); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if tc.wal { // what a killed process leaves
				if err := os.WriteFile(path+"-wal", []byte("left behind"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := readFile(t, path)
			for range 2 {
				_, err = store.Open(t.Context(), path, nil)
				wantError(t, "Open", err, core.KindOS, "failed its integrity check")
				if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "left untouched")) {
					t.Errorf("Open = %v, want the file named and the remedy", err)
				}
			}
			if !bytes.Equal(readFile(t, path), before) {
				t.Error("Open changed the damaged file")
			}
		})
	}
}

// A layout that a newer build of the same state package made is used as it is.
func TestNewerLayout(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path, "ALTER TABLE sessions ADD COLUMN added TEXT", "PRAGMA user_version = 99")
	s = reopen(t, path)
	seed(t, s, "s2")
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.Sessions(store.SessionFilter{Strict: true})
		if err == nil && len(list) != 2 {
			t.Errorf("Sessions = %v, want two", list)
		}
		return err
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := testkit.PrivateDir(t)
	_, err := store.Open(t.Context(), filepath.Join(dir, "none", "state.db"), nil)
	wantError(t, "Open in no folder", err, core.KindNotFound, "none")
	if err := os.Mkdir(filepath.Join(dir, "state.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), filepath.Join(dir, "state.db"), nil)
	wantError(t, "Open of a folder", err, core.KindOS, "state.db")
	original := filepath.Join(dir, "a.db")
	if err := os.WriteFile(original, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(original, filepath.Join(dir, "b.db")); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), original, nil)
	wantError(t, "Open of a file with two names", err, core.KindOS, "one name")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
