package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is one file of a test archive.
type entry struct {
	name, content string
	mode          int64
	kind          byte // 0: a regular file
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for _, e := range entries {
		kind := e.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Typeflag: kind}
		if kind != tar.TypeReg {
			header.Size, header.Linkname = 0, e.content
		}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if kind == tar.TypeReg {
			if _, err := io.WriteString(files, e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fakeNPM puts an npm into an otherwise empty PATH. It delivers content and
// counts its runs in the returned file; empty content makes it fail.
func fakeNPM(t *testing.T, content []byte) (runs string) {
	t.Helper()
	bin := t.TempDir()
	runs = filepath.Join(bin, "runs")
	source := filepath.Join(bin, "source")
	script := "#!/bin/sh\necho run >>" + runs + "\n/bin/cp " + source + " \"$4/openai-codex.tgz\"\n"
	if content == nil {
		script = "#!/bin/sh\necho 'npm error network down' >&2\nexit 1\n"
	}
	if err := os.WriteFile(source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	return runs
}

func good() []entry {
	return []entry{
		{"package/package.json", "{}", 0o644, 0},
		{"package/vendor/t/bin/codex", "binary", 0o755, 0},
		{"package/vendor/t/codex-resources/bwrap", "bwrap", 0o755, 0},
		{"package/vendor/t/codex-package.json", "{}", 0o644, 0},
	}
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestFetch(t *testing.T) {
	runs := fakeNPM(t, archive(t, good()...))
	f := fetcher{pin: pin{version: preferred, platform: "p", triple: "t", sha256: sha("binary")}, base: t.TempDir(), log: io.Discard}
	for range 2 {
		path, err := f.fetch(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "binary" {
			t.Errorf("%s holds %q, %v, want the binary", path, content, err)
		}
		native, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(native), "..", "codex-resources", "bwrap")); err != nil {
			t.Errorf("the helpers are not beside the binary: %v", err)
		}
	}
	if got, err := os.ReadFile(runs); err != nil || string(got) != "run\n" {
		t.Errorf("npm ran %q, %v, want one run", got, err)
	}
	left, err := filepath.Glob(filepath.Join(f.parent(), ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("work folders left: %v, %v", left, err)
	}
}

func TestFetchRepairsADamagedCache(t *testing.T) {
	runs := fakeNPM(t, archive(t, good()...))
	f := fetcher{pin: pin{version: preferred, platform: "p", triple: "t"}, base: t.TempDir(), log: io.Discard}
	path, err := f.fetch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := f.fetch(context.Background()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "binary" {
		t.Errorf("after the repair %s holds %q, %v", path, content, err)
	}
	if got, err := os.ReadFile(runs); err != nil || string(got) != "run\nrun\n" {
		t.Errorf("npm ran %q, %v, want two runs", got, err)
	}
}

func TestFetchRefuses(t *testing.T) {
	whole := pin{version: preferred, platform: "p", triple: "t", sha256: sha("binary")}
	tests := []struct {
		name    string
		pin     pin
		content []byte
		want    string
	}{
		{"another binary", pin{version: preferred, platform: "p", triple: "t", sha256: sha("other")}, archive(t, good()...), "nothing was installed"},
		{"another archive", pin{version: preferred, platform: "p", triple: "t", integrity: "sha512-x"}, archive(t, good()...), "nothing was installed"},
		{"no vendor folder", whole, archive(t, entry{"package/x", "", 0o644, 0}), "nothing lies below package/vendor/t/"},
		{"no binary", whole, archive(t, entry{"package/vendor/t/x", "", 0o644, 0}), "the package holds no binary"},
		{"leaving the folder", whole, archive(t, entry{"package/vendor/t/../../../x", "", 0o644, 0}), "is not a plain file"},
		{"a link", whole, archive(t, entry{"package/vendor/t/bin/codex", "/bin/sh", 0o777, tar.TypeSymlink}), "is not a plain file"},
		{"no archive", whole, []byte("not gzip"), "unpacking @openai/codex@0.149.0-p"},
		{"npm fails", whole, nil, "npm error network down"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fakeNPM(t, test.content)
			f := fetcher{pin: test.pin, base: t.TempDir(), log: io.Discard}
			_, err := f.fetch(context.Background())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("fetch = %v, want %q in it", err, test.want)
			}
			if _, err := os.Lstat(f.final()); !os.IsNotExist(err) {
				t.Errorf("%s exists after a refusal", f.final())
			}
		})
	}
}

func TestFetchWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	f := fetcher{pin: pin{version: preferred, platform: "p", triple: "t"}, base: t.TempDir(), log: io.Discard}
	if _, err := f.fetch(context.Background()); err == nil || !strings.Contains(err.Error(), "install Node.js with npm") {
		t.Errorf("fetch without npm = %v, want the remedy", err)
	}
}

func TestCacheDir(t *testing.T) {
	tests := []struct{ xdg, home, want, err string }{
		{"/c", "/h", "/c", ""},
		{"", "/h", "/h/.cache", ""},
		{"", "", "", "set HOME"},
		{"c", "/h", "", "XDG_CACHE_HOME"},
		{"", "h", "", "HOME is"},
	}
	for _, test := range tests {
		env := map[string]string{"XDG_CACHE_HOME": test.xdg, "HOME": test.home}
		got, err := cacheDir(func(name string) string { return env[name] })
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("cacheDir(%v) = %q, %v, want %q", env, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("cacheDir(%v) = %v, want %q in the error", env, err, test.err)
		}
	}
}

func TestPinForUnknownPlatform(t *testing.T) {
	for _, args := range [][3]string{{preferred, "windows", "amd64"}, {"0.1.0", "linux", "amd64"}} {
		if _, err := pinFor(args[0], args[1], args[2]); err == nil {
			t.Errorf("pinFor(%v) = nil error, want a refusal", args)
		}
	}
}
