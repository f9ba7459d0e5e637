package testkit_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func TestAssertNoMarked(t *testing.T) {
	c := startChild(t, "ar_sweeptest/3")
	sweep := func(t testing.TB) { testkit.AssertNoMarked(t, testkit.MarkOf("ar_sweeptest")) }
	got := failuresOf(t, sweep)
	if len(got) != 1 || !strings.Contains(got[0], "still lives and carries our mark") {
		t.Errorf("sweep beside a living process failed with %q, want one failure", got)
	}
	testkit.AssertNoMarked(t, testkit.MarkOf("ar_sweep", "3"))
	testkit.Kill9(t, c.id)
	testkit.AssertNoMarked(t, testkit.MarkOf("ar_sweeptest"))
}

func TestAssertNoSecret(t *testing.T) {
	const secret = "s3cret-value-0123456789"
	padded := "xy" + secret + "z"               // shifts base64 by two bytes
	tests := map[string]func(dir string) error{ // what holds the secret -> how it comes there
		"content": func(dir string) error { return write(dir, "f", "key="+secret) },
		"hex":     func(dir string) error { return write(dir, "f", hex.EncodeToString([]byte(secret))) },
		"base64": func(dir string) error {
			return write(dir, "f", base64.StdEncoding.EncodeToString([]byte(padded)))
		},
		"name":   func(dir string) error { return write(dir, secret, "") },
		"target": func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "l")) },
		"deep": func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
				return err
			}
			return write(filepath.Join(dir, "a", "b"), "f", secret)
		},
	}
	for name, plant := range tests {
		t.Run(name, func(t *testing.T) {
			dir := testkit.PrivateDir(t)
			testkit.AssertNoSecret(t, dir, []string{secret})
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			got := failuresOf(t, func(t testing.TB) { testkit.AssertNoSecret(t, dir, []string{"another-secret", secret}) })
			if len(got) != 1 || !strings.HasSuffix(got[0], "holds secret number 1") {
				t.Errorf("sweep failed with %q, want one failure", got)
			}
			if name != "name" && strings.Contains(strings.Join(got, ""), secret) {
				t.Errorf("the failure tells the secret: %q", got)
			}
			testkit.AssertNoSecret(t, dir, []string{secret}, "f", "l", "s3cret-*", "a/b/")
		})
	}
}

func TestAssertNoSecretRefusesShortOnes(t *testing.T) {
	got := failuresOf(t, func(t testing.TB) { testkit.AssertNoSecret(t, ".", []string{"short"}) })
	if len(got) != 1 || !strings.Contains(got[0], "can't be met by chance") {
		t.Errorf("sweep for a short secret failed with %q, want a refusal", got)
	}
}

func TestAssertNoSecretInArgv(t *testing.T) {
	testkit.AssertNoSecretInArgv(t, []string{"no-process-has-this-word-" + hex.EncodeToString([]byte{7, 8})})
	name := filepath.Base(os.Args[0])
	if len(name) < 8 {
		t.Fatalf("name of the test binary %q is too short for this test", name)
	}
	got := failuresOf(t, func(t testing.TB) { testkit.AssertNoSecretInArgv(t, []string{name}) })
	if len(got) == 0 || !strings.HasSuffix(got[0], "holds secret number 0") {
		t.Errorf("sweep for a word of our own command line failed with %q, want a failure", got)
	}
}

func TestAssertModes(t *testing.T) {
	tests := []struct {
		name string
		file os.FileMode
		dir  os.FileMode
		want int // failures
	}{
		{"private", 0o600, 0o700, 0},
		{"executable", 0o700, 0o700, 0},
		{"read-only", 0o400, 0o700, 0},
		{"file open to the group", 0o640, 0o700, 1},
		{"file open to all", 0o604, 0o700, 1},
		{"folder open to all", 0o600, 0o701, 1},
		{"folder not writable", 0o600, 0o500, 1},
		{"both", 0o644, 0o755, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := testkit.PrivateDir(t)
			dir := filepath.Join(root, "dir")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := write(dir, "file", ""); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, "file"), test.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, test.dir); err != nil {
				t.Fatal(err)
			}
			got := failuresOf(t, func(t testing.TB) { testkit.AssertModes(t, root) })
			if len(got) != test.want {
				t.Errorf("AssertModes failed %d times, want %d: %q", len(got), test.want, got)
			}
			testkit.AssertModes(t, root, "dir")
		})
	}
}

func write(dir, name, content string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
}
