package testkit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
)

// sweepGrace is how long a process that was told to go may take until the
// sweep counts it. It covers children that end on their own when their parent
// is gone.
const sweepGrace = 2 * time.Second

// AssertNoMarked fails the test for every living process whose mark matches,
// that is, for everything that outlived its agent. Pass a match that knows the
// agents of this test only: other tests may run beside it.
func AssertNoMarked(t testing.TB, match func(mark string) bool) {
	t.Helper()
	found, err := process.Marked(match)
	if err != nil {
		t.Fatalf("looking for marked processes: %v", err)
	}
	grace := time.NewTimer(sweepGrace)
	defer grace.Stop()
	for _, id := range found {
		if !endsBefore(id, grace.C) {
			break
		}
	}
	found, err = process.Marked(match) // also what was started meanwhile
	if err != nil {
		t.Fatalf("looking for marked processes: %v", err)
	}
	for _, id := range found {
		t.Errorf("process %d (%s) still lives and carries our mark", id.PID, id.Command)
	}
}

// AssertNoSandbox fails the test for every living sandbox of Codex whose command
// line names dir. Codex starts its file helper there with an empty environment:
// it carries no mark.
func AssertNoSandbox(t testing.TB, dir string) {
	t.Helper()
	grace := time.NewTimer(sweepGrace)
	defer grace.Stop()
	for _, id := range sandboxes(t, dir) {
		if endsBefore(id, grace.C) {
			continue
		}
		t.Errorf("process %d (%s, group %d, session %d) is a sandbox that outlived its agent", id.PID, id.Command, id.PGID, id.SID)
	}
}

// KillSandboxes ends the sandboxes that work below dir, as a power cut does.
// One that is cut off in its very start waits for ever for the parent that was
// to set it up.
func KillSandboxes(t testing.TB, dir string) {
	t.Helper()
	for _, id := range sandboxes(t, dir) {
		handle, err := process.Open(id)
		if errors.Is(err, process.ErrGone) {
			continue
		}
		if err != nil {
			t.Fatalf("open process %d (%s): %v", id.PID, id.Command, err)
		}
		if err := handle.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, process.ErrGone) {
			t.Errorf("killing %d (%s): %v", id.PID, id.Command, err)
		}
		Await(t, handle.Done(), fmt.Sprintf("the end of process %d (%s)", id.PID, id.Command))
		handle.Close()
	}
}

// sandboxes returns the living sandboxes of Codex whose command line names dir.
func sandboxes(t testing.TB, dir string) (list []process.Identity) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(dir)) || !bytes.Contains(line, []byte("codex-linux-sandbox")) {
			continue // an error: it ended, or belongs to somebody else
		}
		pid, err := strconv.Atoi(path.Base(path.Dir(file)))
		if err != nil {
			continue // not a process
		}
		if id, err := process.Lookup(pid); err == nil {
			list = append(list, id)
		}
	}
	return list
}

// endsBefore waits for the end of a process and reports whether it came before
// the deadline.
func endsBefore(id process.Identity, deadline <-chan time.Time) bool {
	handle, err := process.Open(id)
	if err != nil {
		return errors.Is(err, process.ErrGone)
	}
	defer handle.Close()
	select {
	case <-handle.Done():
		return true
	case <-deadline:
		return false
	}
}

// AssertNoSecret fails the test for every file below root that holds one of
// the secrets: as it is, in hex or in base64, in the content, the name or the
// target of a link. Paths in allowed, relative to root and with the wildcards
// of path.Match, may hold them; a folder there allows all that it contains.
// The message names the file and the number of the secret, not the secret.
func AssertNoSecret(t testing.TB, root string, secrets []string, allowed ...string) {
	t.Helper()
	needles := spellings(t, secrets)
	walk(t, root, allowed, func(name string, entry fs.DirEntry) error {
		text := []byte(name)
		switch entry.Type() {
		case 0:
			content, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				return err
			}
			text = append(append(text, 0), content...)
		case fs.ModeSymlink:
			target, err := os.Readlink(filepath.Join(root, name))
			if err != nil {
				return err
			}
			text = append(append(text, 0), target...)
		}
		for i, forms := range needles {
			for _, needle := range forms {
				if bytes.Contains(text, needle) {
					t.Errorf("%s holds secret number %d", filepath.Join(root, name), i)
					break
				}
			}
		}
		return nil
	})
}

// spellings returns for each secret the byte strings it might appear as.
func spellings(t testing.TB, secrets []string) [][][]byte {
	t.Helper()
	var all [][][]byte
	for i, secret := range secrets {
		if len(secret) < 8 {
			t.Fatalf("secret number %d has %d bytes; one of 8 or more can't be met by chance", i, len(secret))
		}
		raw := []byte(secret)
		forms := [][]byte{raw, []byte(hex.EncodeToString(raw))}
		for skip := range 3 { // base64 reads three bytes at a time, from any of three offsets
			whole := raw[skip : skip+(len(raw)-skip)/3*3]
			forms = append(forms, []byte(base64.RawStdEncoding.EncodeToString(whole)),
				[]byte(base64.RawURLEncoding.EncodeToString(whole)))
		}
		all = append(all, forms)
	}
	return all
}

// AssertNoSecretInArgv fails the test for every process of this user whose
// command line holds one of the secrets: everyone on the machine may read it.
func AssertNoSecretInArgv(t testing.TB, secrets []string) {
	t.Helper()
	needles := spellings(t, secrets)
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatalf("listing processes: %v", err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it ended, or belongs to somebody else
		}
		for i, forms := range needles {
			if bytes.Contains(line, forms[0]) {
				t.Errorf("%s holds secret number %d", file, i)
			}
		}
	}
}

// AssertModes fails the test for everything below root, and for root itself,
// that others than its owner may use: folders must have mode 0700, files
// nothing beyond 0700. Paths in except, as in AssertNoSecret, are left out.
func AssertModes(t testing.TB, root string, except ...string) {
	t.Helper()
	walk(t, root, except, func(name string, entry fs.DirEntry) error {
		if entry.Type() == fs.ModeSymlink {
			return nil // has no mode of its own
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		perm := info.Mode().Perm()
		switch {
		case entry.IsDir() && perm != 0o700:
			t.Errorf("folder %s has mode %04o, want 0700", filepath.Join(root, name), perm)
		case !entry.IsDir() && perm&^0o700 != 0:
			t.Errorf("%s has mode %04o, want 0600 or 0700", filepath.Join(root, name), perm)
		}
		return nil
	})
}

// walk visits everything below root but the excepted paths. What vanishes
// meanwhile is not an error: processes of the test may still be closing.
func walk(t testing.TB, root string, except []string, visit func(name string, entry fs.DirEntry) error) {
	t.Helper()
	if _, err := os.Lstat(root); err != nil {
		t.Fatalf("sweeping: %v", err)
	}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			if excepted(t, name, except) {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			err = visit(name, entry)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatalf("sweeping %s: %v", root, err)
	}
}

func excepted(t testing.TB, name string, patterns []string) bool {
	t.Helper()
	for _, pattern := range patterns {
		ok, err := path.Match(strings.TrimSuffix(pattern, "/"), name)
		if err != nil {
			t.Fatalf("pattern %q: %v", pattern, err)
		}
		if ok {
			return true
		}
	}
	return false
}

// MarkOf returns a match for AssertNoMarked: the marks of the given agent
// runs, in any generation. A mark is "<agent run ref>/<generation>".
func MarkOf(refs ...string) func(mark string) bool {
	return func(mark string) bool {
		ref, _, ok := strings.Cut(mark, "/")
		return ok && slices.Contains(refs, ref)
	}
}
