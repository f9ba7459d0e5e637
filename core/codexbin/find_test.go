package codexbin_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// plant writes an executable file below dir and returns its path.
func plant(t *testing.T, content string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func link(t *testing.T, target string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// binary is how a native program of this system begins.
var binary = map[string]string{"linux": "\x7fELF and more", "darwin": "\xcf\xfa\xed\xfe and more"}[runtime.GOOS]

const script = "#!/usr/bin/env node\n"

func find(dir string, env map[string]string, settings string, caches ...string) (string, error) {
	return codexbin.Find(func(name string) string { return env[name] }, settings, caches)
}

func TestFindOrder(t *testing.T) {
	dir := testkit.PrivateDir(t)
	byEnv := plant(t, binary, dir, "env", "codex")
	bySettings := plant(t, binary, dir, "settings", "codex")
	real := plant(t, binary, dir, "cache", "1", "codex-dir", "bin", "codex")
	link(t, "codex-dir/bin/codex", dir, "cache", "1", "codex") // as `make codex` does
	byPath := plant(t, binary, dir, "path", "codex")
	other := plant(t, binary, dir, "path", "codex-next")
	path := filepath.Join(dir, "nowhere") + ":" + "relative:" + filepath.Join(dir, "path")
	caches := []string{filepath.Join(dir, "cache", "0"), filepath.Join(dir, "cache", "1")}
	for name, tc := range map[string]struct {
		env      map[string]string
		settings string
		caches   []string
		want     string
	}{
		"variable":         {map[string]string{"MMO_CODEX_BIN": byEnv, "PATH": path}, bySettings, caches, byEnv},
		"settings":         {map[string]string{"PATH": path}, bySettings, caches, bySettings},
		"cache":            {map[string]string{"PATH": path}, "", caches, real},
		"path":             {map[string]string{"PATH": path}, "", nil, byPath},
		"variable by name": {map[string]string{"MMO_CODEX_BIN": "codex-next", "PATH": path}, "", caches, other},
		"settings by name": {map[string]string{"PATH": path}, "codex", caches, byPath},
	} {
		got, err := find(dir, tc.env, tc.settings, tc.caches...)
		if err != nil || got != tc.want {
			t.Errorf("%s: Find = %q, %v, want %q", name, got, err, tc.want)
		}
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env      map[string]string
		settings string
		kind     core.Kind
		want     string
	}{
		"nothing":         {nil, "", core.KindNotFound, "no codex: MMO_CODEX_BIN is not set"},
		"missing":         {map[string]string{"MMO_CODEX_BIN": filepath.Join(dir, "none"), "PATH": path}, "", core.KindNotFound, "none, named by MMO_CODEX_BIN, does not exist"},
		"missing setting": {map[string]string{"PATH": path}, filepath.Join(dir, "none"), core.KindNotFound, "named by the setting codex_bin, does not exist"},
		"unknown name":    {map[string]string{"MMO_CODEX_BIN": "codex-none", "PATH": path}, "", core.KindNotFound, "neither an absolute path nor on PATH"},
		"relative":        {map[string]string{"MMO_CODEX_BIN": "./codex", "PATH": path}, "", core.KindNotFound, "neither an absolute path nor on PATH"},
		"not executable":  {map[string]string{"MMO_CODEX_BIN": plain}, "", core.KindOS, "is not an executable file"},
		"folder":          {map[string]string{"MMO_CODEX_BIN": dir}, "", core.KindOS, "is not an executable file"},
	} {
		_, err := find(dir, tc.env, tc.settings)
		if core.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "make codex") {
			t.Errorf("%s: Find = %v, want a %s with %q and the remedy", name, err, tc.kind, tc.want)
		}
	}
}

// The wrapper script of the npm package leads to the binary that it would
// start, in every layout that npm makes.
func TestFindBehindWrapper(t *testing.T) {
	triple := map[string]string{
		"linux/amd64": "x86_64-unknown-linux-musl", "linux/arm64": "aarch64-unknown-linux-musl",
		"darwin/amd64": "x86_64-apple-darwin", "darwin/arm64": "aarch64-apple-darwin",
	}[runtime.GOOS+"/"+runtime.GOARCH]
	for name, place := range map[string]string{
		"beside":      "node_modules/@openai/codex-some-os/vendor/" + triple + "/bin/codex",
		"below":       "node_modules/@openai/codex/node_modules/@openai/codex-some-os/vendor/" + triple + "/bin/codex",
		"own":         "node_modules/@openai/codex/vendor/" + triple + "/bin/codex",
		"own, before": "node_modules/@openai/codex/vendor/" + triple + "/codex/codex",
	} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.PrivateDir(t)
			plant(t, script, dir, "node_modules/@openai/codex/bin/codex.js")
			link(t, "../node_modules/@openai/codex/bin/codex.js", dir, "bin", "codex")
			plant(t, binary, dir, strings.Replace(place, triple, "riscv-other-os", 1))
			want := plant(t, binary, dir, place)
			got, err := find(dir, map[string]string{"PATH": filepath.Join(dir, "bin")}, "")
			if err != nil || got != want {
				t.Errorf("Find = %q, %v, want %q", got, err, want)
			}
		})
	}
	dir := testkit.PrivateDir(t)
	plant(t, script, dir, "shims", "codex")
	_, err := find(dir, map[string]string{"PATH": filepath.Join(dir, "shims")}, "")
	if core.KindOf(err) != core.KindNotFound || !strings.Contains(err.Error(), "is a script and no native binary") {
		t.Errorf("Find of a lone script = %v, want it refused", err)
	}
}

func TestPlaces(t *testing.T) {
	want := []string{"/c/codex-mmo/codex/0.149.0", "/c/codex-mmo/codex/0.171.0"}
	if diff := cmp.Diff(want, codexbin.CacheDirs(func(name string) string { return map[string]string{"XDG_CACHE_HOME": "/c", "HOME": "/h"}[name] })); diff != "" {
		t.Errorf("CacheDirs (-want +got):\n%s", diff)
	}
	dir := testkit.PrivateDir(t)
	codex := plant(t, binary, dir, "bin", "codex")
	if got := codexbin.HelperDir(codex); got != "" {
		t.Errorf("HelperDir of a bare binary = %q, want none", got)
	}
	plant(t, binary, dir, "codex-resources", "bwrap")
	if got, want := codexbin.HelperDir(codex), filepath.Join(dir, "codex-resources"); got != want {
		t.Errorf("HelperDir = %q, want %q", got, want)
	}
}
