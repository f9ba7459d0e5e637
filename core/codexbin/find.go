package codexbin

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/codex-mmo/codex-mmo/core"
)

// BinaryVar is the environment variable that names the Codex to use.
const BinaryVar = "MMO_CODEX_BIN"

// remedy is what to do without a usable Codex.
const remedy = "run `make codex`, or set " + BinaryVar + " to a native codex binary"

// Find returns the absolute path, links resolved, of the native Codex binary:
// the one that MMO_CODEX_BIN names, else the one of the settings (settingsBin;
// empty: none), else the first that is in cacheDirs, folders as `make codex`
// fills them, else the first codex on PATH. A name without a separator in the
// first two is looked up on PATH. One that is named and unusable is an error,
// not a reason to look further.
func Find(getenv func(string) string, settingsBin string, cacheDirs []string) (string, error) {
	for _, named := range []struct{ source, value string }{
		{BinaryVar, getenv(BinaryVar)},
		{"the setting codex_bin", settingsBin},
	} {
		if named.value == "" {
			continue
		}
		path := named.value
		if filepath.Base(path) == path {
			path = onPath(getenv("PATH"), path)
		}
		if !filepath.IsAbs(path) {
			return "", core.Errorf(core.KindNotFound, "%s names %q, which is neither an absolute path nor on PATH", named.source, named.value).
				WithRemedy(remedy)
		}
		return native(path, named.source)
	}
	for _, dir := range cacheDirs {
		if path := filepath.Join(dir, "codex"); executable(path) {
			return native(path, "the cache")
		}
	}
	if path := onPath(getenv("PATH"), "codex"); path != "" {
		return native(path, "PATH")
	}
	return "", core.Errorf(core.KindNotFound, "no codex: %s is not set, none is in the cache and none on PATH", BinaryVar).
		WithRemedy(remedy)
}

// CacheDirs lists the folders that `make codex` fills below the user's cache
// folder ($XDG_CACHE_HOME, else .cache in HOME), for Find: the reviewed
// versions, oldest first, as the tests prefer them. It is empty when the
// environment names neither.
func CacheDirs(getenv func(string) string) []string {
	userCache := getenv("XDG_CACHE_HOME")
	if userCache == "" && getenv("HOME") != "" {
		userCache = filepath.Join(getenv("HOME"), ".cache")
	}
	if userCache == "" {
		return nil
	}
	var dirs []string
	for _, version := range reviewedVersions() {
		dirs = append(dirs, filepath.Join(userCache, "codex-mmo", "codex", version))
	}
	return dirs
}

// HelperDir returns the folder of the programs that come with a native Codex
// (its sandbox's bwrap), or nothing when it came without. With it on PATH Codex
// starts without a warning.
func HelperDir(codex string) string {
	dir := filepath.Join(filepath.Dir(filepath.Dir(codex)), "codex-resources")
	if !executable(filepath.Join(dir, "bwrap")) {
		return ""
	}
	return dir
}

// onPath looks a program up in the absolute folders of PATH.
func onPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(path) {
			return path
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// native resolves links, and npm's wrapper script to the binary that it would
// start.
func native(path, source string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", core.Errorf(core.KindNotFound, "codex %s, named by %s, does not exist: %w", path, source, err).WithRemedy(remedy)
	}
	if err != nil {
		return "", core.Errorf(core.KindOS, "codex %s, named by %s: %w", path, source, err).WithRemedy(remedy)
	}
	if !executable(real) {
		return "", core.Errorf(core.KindOS, "codex %s, named by %s, is not an executable file", real, source).WithRemedy(remedy)
	}
	if isNative(real) {
		return real, nil
	}
	for _, pattern := range wrapped(filepath.Dir(filepath.Dir(real))) {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", core.Errorf(core.KindOS, "looking for the binary behind %s: %w", real, err)
		}
		for _, candidate := range found {
			if executable(candidate) && isNative(candidate) {
				return filepath.EvalSymlinks(candidate)
			}
		}
	}
	return "", core.Errorf(core.KindNotFound, "codex %s, named by %s, is a script and no native binary for %s/%s was found beside it",
		real, source, runtime.GOOS, runtime.GOARCH).WithRemedy(remedy)
}

// triples name our platforms as Codex's packages do.
var triples = map[string]string{
	"linux/amd64":  "x86_64-unknown-linux-musl",
	"linux/arm64":  "aarch64-unknown-linux-musl",
	"darwin/amd64": "x86_64-apple-darwin",
	"darwin/arm64": "aarch64-apple-darwin",
}

// wrapped lists where the wrapper of the npm package @openai/codex, whose
// folder is pkg, finds its binary: in a package per platform beside or below
// it, or in its own vendor folder; 0.149.0 has it in bin, older ones in codex.
func wrapped(pkg string) []string {
	triple, ok := triples[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return nil
	}
	var patterns []string
	for _, base := range []string{
		filepath.Join(pkg, "node_modules", "@openai", "codex-*"),
		filepath.Join(filepath.Dir(pkg), "codex-*"),
		pkg,
	} {
		for _, folder := range []string{"bin", "codex"} {
			patterns = append(patterns, filepath.Join(base, "vendor", triple, folder, "codex"))
		}
	}
	return patterns
}

// isNative reports whether the file begins as an executable of this system:
// ELF, or Mach-O (thin or universal).
func isNative(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return false
	}
	if runtime.GOOS == "darwin" {
		return bytes.Equal(magic, []byte{0xCF, 0xFA, 0xED, 0xFE}) || bytes.Equal(magic, []byte{0xCA, 0xFE, 0xBA, 0xBE})
	}
	return bytes.Equal(magic, []byte("\x7fELF"))
}
