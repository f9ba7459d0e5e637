package codexbin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// reviewed149 and reviewed171 are the digests of the experimental schemas that
// were reviewed.
const (
	reviewed149 = "fcfeaf23728b96ab73916a21302eb7a16629e67ee99f7ee47b60fad6b6e5ee1a"
	reviewed171 = "fbc80bd50bb2f7b5214f4181988f49e4f4ae5b65fc287e4c3d6fc313d03a2a7a"
)

func realCodex(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(codexbin.BinaryVar); path != "" {
		return path
	}
	return testkit.Codex(t)
}

// The pinned Codex is a reviewed one, and its verdict is kept.
//
// Spec: A043
func TestGateRealCodex(t *testing.T) {
	cache := filepath.Join(testkit.PrivateDir(t), "codex")
	opts := &codexbin.GateOptions{Policy: codexbin.PolicyReviewed, CacheDir: cache}
	first, err := codexbin.Gate(t.Context(), realCodex(t), opts)
	if err != nil {
		t.Fatalf("Gate: %v", err)
	}
	if first.Version != testkit.CodexVersion || first.Verdict != codexbin.VerdictReviewed || first.SchemaSHA256 != reviewed149 || len(first.SHA256) != 64 {
		t.Errorf("Gate = %+v, want the reviewed %s", first, testkit.CodexVersion)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || entries[0].Name() != "codex-gate.json" {
		t.Errorf("the cache holds %v, %v, want its file alone", entries, err)
	}
	if info, err := os.Lstat(filepath.Join(cache, "codex-gate.json")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the cache file is %v, %v, want mode 600", info, err)
	}
	again, err := codexbin.Gate(t.Context(), realCodex(t), opts)
	if err != nil || again != first {
		t.Errorf("Gate from the cache = %+v, %v, want %+v", again, err, first)
	}
}

// Each Codex that was reviewed has the schema of its review: so many files, of
// which the digest is computed here anew, beside the gate.
//
// Spec: A043
func TestReviewedSchemas(t *testing.T) {
	for version, want := range map[string]struct {
		files  int
		digest string
	}{
		"0.149.0": {401, reviewed149},
		"0.171.0": {483, reviewed171},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(testkit.CodexVersions, version) {
				t.Fatalf("the kit has %v", testkit.CodexVersions)
			}
			codex := testkit.CodexOf(t, version)
			dir := filepath.Join(testkit.PrivateDir(t), "schema")
			generate(t, codex, dir)
			files, digest := schemaOf(t, dir)
			if files != want.files || digest != want.digest {
				t.Errorf("the schema has %d files and digest %s, want %d and %s", files, digest, want.files, want.digest)
			}
			pin, err := codexbin.Gate(t.Context(), codex, &codexbin.GateOptions{Policy: codexbin.PolicyReviewed})
			if err != nil || pin.Version != version || pin.Verdict != codexbin.VerdictReviewed || pin.SchemaSHA256 != want.digest {
				t.Errorf("Gate = %+v, %v, want the reviewed %s", pin, err, version)
			}
		})
	}
}

// schemaOf counts the files of a folder and digests their paths and bytes, each
// path ended by a NUL, in the order of the paths.
func schemaOf(t *testing.T, dir string) (files int, digest string) {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files++
		sum.Write(append([]byte(filepath.ToSlash(name)), 0))
		sum.Write(mustRead(t, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, hex.EncodeToString(sum.Sum(nil))
}

// generate has a Codex write its experimental schema into a folder, with an empty
// home beside it.
func generate(t *testing.T, codex, dir string) {
	t.Helper()
	home := filepath.Join(filepath.Dir(dir), "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), codex, "app-server", "generate-json-schema", "--experimental", "--out", dir)
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("generating the schema: %v\n%s", err, out)
	}
}

// fakeCodex is a Codex of another digest with the schema of the real one.
type fakeCodex struct {
	t    *testing.T
	dir  string
	path string
}

func newFake(t *testing.T, version string) *fakeCodex {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeCodex{t: t, dir: testkit.PrivateDir(t)}
	f.path = plant(t, string(program), f.dir, "codex")
	plant(t, version, f.dir, "version")
	generate(t, realCodex(t), filepath.Join(f.dir, "schema"))
	return f
}

// edit changes a text of one of the schema's files.
func (f *fakeCodex) edit(file, from, to string) {
	f.t.Helper()
	path := filepath.Join(f.dir, "schema", file)
	data, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		f.t.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), from, to)), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeCodex) runs() string {
	data, err := os.ReadFile(filepath.Join(f.dir, "runs"))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

func TestGateCompatible(t *testing.T) {
	t.Setenv("SECRET_API_KEY", "canary")
	f := newFake(t, "codex-cli 0.160.1\n")
	f.edit("ClientRequest.json", `"thread/archive"`, `"thread/shelve"`) // we do not use it
	cache := filepath.Join(f.dir, "cache")
	pin, err := codexbin.Gate(t.Context(), f.path, &codexbin.GateOptions{CacheDir: cache})
	if err != nil {
		t.Fatalf("Gate: %v", err)
	}
	if pin.Version != "0.160.1" || pin.Verdict != codexbin.VerdictCompatible || pin.SchemaSHA256 == reviewed149 {
		t.Errorf("Gate = %+v, want a compatible 0.160.1", pin)
	}
	if runs := f.runs(); strings.Contains(runs, "canary") || strings.Count(runs, "\n") != 2 {
		t.Errorf("codex ran as %s, want twice and without our environment", runs)
	}
	_, err = codexbin.Gate(t.Context(), f.path, &codexbin.GateOptions{Policy: codexbin.PolicyReviewed, CacheDir: cache})
	if core.KindOf(err) != core.KindAppServer || !strings.Contains(err.Error(), "protocol version mismatch") || !strings.Contains(err.Error(), `codex_versions = "compatible"`) {
		t.Errorf("Gate under reviewed = %v, want a mismatch with the remedy", err)
	}
	if strings.Count(f.runs(), "\n") != 2 {
		t.Error("a known binary was run again")
	}
	// Another file in the same place is another binary.
	plant(t, string(mustRead(t, f.path))+"more", f.dir, "codex")
	other, err := codexbin.Gate(t.Context(), f.path, &codexbin.GateOptions{CacheDir: cache})
	if err != nil || other.SHA256 == pin.SHA256 || strings.Count(f.runs(), "\n") != 4 {
		t.Errorf("Gate of a replaced binary = %+v, %v, want it examined anew", other, err)
	}
	// A damaged cache is begun anew.
	if err := os.WriteFile(filepath.Join(cache, "codex-gate.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := codexbin.Gate(t.Context(), f.path, &codexbin.GateOptions{CacheDir: cache}); err != nil || strings.Count(f.runs(), "\n") != 6 {
		t.Errorf("Gate with a damaged cache: %v", err)
	}
}

// TestGateRefuses: a Codex that lacks what we use is a protocol mismatch, told
// with what is missing and the remedy.
//
// Spec: A040
func TestGateRefuses(t *testing.T) {
	f := newFake(t, "codex-cli 0.200.0\n")
	f.edit("ClientRequest.json", `"turn/steer"`, `"turn/push"`)
	f.edit("v2/ThreadStartResponse.json", `"activePermissionProfile"`, `"profile"`)
	cache := filepath.Join(f.dir, "cache")
	for range 2 { // the second time from the cache
		_, err := codexbin.Gate(t.Context(), f.path, &codexbin.GateOptions{CacheDir: cache})
		if core.KindOf(err) != core.KindAppServer {
			t.Fatalf("Gate = %v, want an AppServerError", err)
		}
		for _, want := range []string{
			"protocol version mismatch: codex 0.200.0 at " + f.path, "turn/steer",
			"ThreadStartResponse.json activePermissionProfile.id:string", "reviewed: 0.149.0, 0.171.0", "make codex",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Gate = %v, want %q in it", err, want)
			}
		}
	}
	if strings.Count(f.runs(), "\n") != 2 {
		t.Error("a refused binary was run again")
	}
}

func TestGateOtherProgram(t *testing.T) {
	dir := testkit.PrivateDir(t)
	for name, tc := range map[string]struct {
		path string
		opts *codexbin.GateOptions
		kind core.Kind
		want string
	}{
		"missing": {filepath.Join(dir, "none"), nil, core.KindNotFound, "none"},
		"script":  {plant(t, "#!/bin/sh\n", dir, "codex"), nil, core.KindOS, "is not a native executable"},
		"policy":  {"/", &codexbin.GateOptions{Policy: "any"}, core.KindValue, `codex_versions is "any"`},
	} {
		_, err := codexbin.Gate(t.Context(), tc.path, tc.opts)
		if core.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Gate = %v, want a %s with %q", name, err, tc.kind, tc.want)
		}
	}
	f := newFake(t, "something else 1.0\n")
	_, err := codexbin.Gate(t.Context(), f.path, nil)
	if core.KindOf(err) != core.KindAppServer || !strings.Contains(err.Error(), "is not Codex's answer") {
		t.Errorf("Gate of another program = %v, want it refused", err)
	}
	if err := os.Remove(filepath.Join(f.dir, "version")); err != nil {
		t.Fatal(err)
	}
	_, err = codexbin.Gate(t.Context(), f.path, nil)
	if core.KindOf(err) != core.KindAppServer || !strings.Contains(err.Error(), "playing codex") {
		t.Errorf("Gate of a failing program = %v, want its own words", err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
