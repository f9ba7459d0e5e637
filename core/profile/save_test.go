package profile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// cutEnv orders the test binary to keep a snapshot: "BYTES HOW DIR".
const cutEnv = "MMO_PROFILE_TEST_CUT"

// How a save is cut short, at the first byte of a file that is too many.
const (
	cutDies  = "dies"  // the process dies there and then
	cutFails = "fails" // the write fails, as on a full disk
)

func TestMain(m *testing.M) {
	if order := os.Getenv(cutEnv); order != "" {
		os.Exit(saveCut(order))
	}
	os.Exit(m.Run())
}

// longFiles are a team whose files are the longer the later they are written,
// so that each of them can be the one that is cut.
func longFiles() fstest.MapFS {
	fsys := files()
	long := func(n int) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Repeat("#", n-1) + "\n")} }
	text := strings.Replace(profileText, `root_agent = "zoe"`, "root_agent = \"zoe\"\nskill = \"skill.md\"", 1)
	for i, agent := range []string{"auditor", "worker", "zoe"} {
		before, after, _ := strings.Cut(text, "[agents."+agent+"]")
		text = before + "[agents." + agent + "]" + strings.Replace(after, `"zoe.md"`, `"`+agent+`.md"`, 1)
		fsys["team/"+agent+".md"] = long(1000 + 1000*i)
	}
	fsys["team/profile.toml"] = &fstest.MapFile{Data: []byte(text)}
	fsys["team/skill.md"] = long(4000)
	fsys["team/s.script"] = long(6000) // stands in the manifest, which is last
	return fsys
}

// saveCut is the other process: it keeps the snapshot of longFiles while no file
// may be longer than the order says. It exits with 0 when that went well and
// with 1 when Save said that it did not.
func saveCut(order string) int {
	var limit uint64
	var how, dir string
	if _, err := fmt.Sscanf(order, "%d %s %s", &limit, &how, &dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 64
	}
	s, err := profile.Compile(context.Background(), &profile.CompileInput{Name: "team", Bundled: longFiles()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 64
	}
	if how == cutFails {
		signal.Ignore(syscall.SIGXFSZ) // the runtime dies of it otherwise
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 64
	}
	if err := s.Save(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if core.KindOf(err) != core.KindOS {
			return 64
		}
		return 1
	}
	return 0
}

// TestSaveIsCut: a snapshot that was not kept to its end, because the process
// died or a write failed, is not there at all, whichever file it was in. The next
// Save keeps it.
func TestSaveIsCut(t *testing.T) {
	t.Parallel()
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: longFiles()})
	for _, how := range []string{cutDies, cutFails} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cut := 0
			for limit := 250; ; limit += 500 {
				state := testkit.PrivateDir(t)
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", cutEnv, limit, how, state))
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				if errors.As(err, &exit) && exit.ExitCode() == 64 || err != nil && exit == nil {
					t.Fatalf("at %d bytes: %v\n%s", limit, err, out)
				}
				entries, readErr := os.ReadDir(filepath.Join(state, "snapshots"))
				if readErr != nil {
					t.Fatal(readErr)
				}
				if err == nil {
					assertWhole(t, state, s)
					break
				}
				cut++
				if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == s.Hash }) {
					t.Errorf("a save that was cut at %d bytes left a snapshot", limit)
				}
				if _, err := profile.Load(state, s.Hash); core.KindOf(err) != core.KindNotFound {
					t.Errorf("cut at %d bytes: Load = %v, want a %s", limit, err, core.KindNotFound)
				}
				if how == cutFails && len(entries) > 0 {
					t.Errorf("a save that failed at %d bytes left %v", limit, entries)
				}
				if err := s.Save(state); err != nil {
					t.Fatalf("the next Save: %v", err)
				}
				assertWhole(t, state, s)
			}
			if cut < 10 {
				t.Errorf("%d saves were cut, want some in each file", cut)
			}
		})
	}
}

// assertWhole fails when a snapshot, or a text of it, is not what was made.
func assertWhole(t *testing.T, state string, s *profile.Snapshot) {
	t.Helper()
	kept, err := profile.Load(state, s.Hash)
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.Files {
		if _, err := kept.Text(name); err != nil {
			t.Error(err)
		}
	}
}

// TestDraftsAreSwept: what a killed Save or Clone has left is removed by the next
// one, and what somebody may be making now is not.
func TestDraftsAreSwept(t *testing.T) {
	t.Parallel()
	const old, young, damaged = ".codex-mmo-draft-1", ".codex-mmo-draft-2", ".codex-mmo-draft-3.old"
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: files()})
	for folder, save := range map[string]func(root string) error{
		"snapshots": s.Save,
		"profiles": func(root string) error {
			_, err := profile.Clone(&profile.CompileInput{Name: "team", Bundled: files(), ConfigDir: root}, "mine")
			return err
		},
	} {
		root := testkit.PrivateDir(t)
		for _, name := range []string{old, young, damaged, "mine-too"} {
			put(t, root, filepath.Join(folder, name, "profile.toml"), "")
			if name != young {
				hours := time.Now().Add(-2 * time.Hour)
				if err := os.Chtimes(filepath.Join(root, folder, name), hours, hours); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := save(root); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil || len(entries) != 3 || entries[0].Name() != young {
			t.Errorf("%s holds %v, %v, want the young draft, what was made and what is no draft", folder, entries, err)
		}
	}
}

// A snapshot is kept whole, suffices without its source, and is hashed again at
// each use: a change of the same length is found.
//
// Spec: R019, R022
func TestSnapshotOnDisk(t *testing.T) {
	state := testkit.PrivateDir(t)
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: files()})
	for range 2 {
		if err := s.Save(state); err != nil {
			t.Fatalf("Save: %v", err)
		}
	}
	testkit.AssertModes(t, state)
	loaded, err := profile.Load(state, s.Hash)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if text, err := loaded.Text(loaded.Agents["zoe"].Guidance); err != nil || string(text) != "# Zoe\n" || loaded.Routes["r"].Script != "model m-big\n" {
		t.Errorf("a loaded snapshot has guidance %q, %v and script %q", text, err, loaded.Routes["r"].Script)
	}
	again := filepath.Join(state, "again")
	if err := loaded.Save(again); err != nil {
		t.Fatalf("Save of a loaded snapshot: %v", err)
	}
	if _, err := profile.Load(again, s.Hash); err != nil {
		t.Errorf("a loaded snapshot was saved under another hash: %v", err)
	}
	dir := filepath.Join(state, "snapshots", s.Hash)
	for _, tc := range []struct{ file, from, to string }{
		{"guidance/zoe.md", "# Zoe", "# Eve"},
		{"manifest.json", `"zoe"`, `"eve"`},
	} {
		path := filepath.Join(dir, tc.file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), tc.from, tc.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = loaded.Text("guidance/zoe.md")
		if tc.file == "manifest.json" {
			_, err = profile.Load(state, s.Hash)
		}
		if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "failed integrity validation") {
			t.Errorf("changed bytes of %s: %v, want failed integrity validation", tc.file, err)
		}
		if err := s.Save(state); err != nil {
			t.Fatalf("Save over changed bytes: %v", err)
		}
		if text, err := loaded.Text("guidance/zoe.md"); err != nil || string(text) != "# Zoe\n" {
			t.Errorf("after Save: %q, %v", text, err)
		}
	}
	for hash, kind := range map[string]core.Kind{"../x": core.KindValue, strings.Repeat("0", 64): core.KindNotFound} {
		if _, err := profile.Load(state, hash); core.KindOf(err) != kind {
			t.Errorf("Load(%s) = %v, want a %s", hash, err, kind)
		}
	}
	entries, err := os.ReadDir(filepath.Join(state, "snapshots"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder of the snapshots holds %v, %v, want one", entries, err)
	}
}
