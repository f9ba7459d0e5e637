package codexbin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// runLimit bounds one run of Codex. It takes well under a second; the rest is
// for machines under load.
const runLimit = time.Minute

// run starts Codex with an empty home in dir and nothing of the caller's
// environment, and returns what it printed, at most 1 MiB of it.
func run(ctx context.Context, path, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	var out, errs limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "CODEX_HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // for a grandchild that keeps the pipes
	if err := cmd.Run(); err != nil {
		return nil, core.Errorf(core.KindAppServer, "running codex %s %v: %w: %s", path, args, err, bytes.TrimSpace(errs.tail(500))).
			WithRemedy(remedy)
	}
	return out.data, nil
}

var versionPattern = regexp.MustCompile(`^codex(?:-cli)? ([0-9][0-9A-Za-z.+-]{0,60})\s*$`)

func askVersion(ctx context.Context, path, dir string) (string, error) {
	out, err := run(ctx, path, dir, "--version")
	if err != nil {
		return "", err
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return "", core.Errorf(core.KindAppServer, "protocol version mismatch: %s --version says %.60q, which is not Codex's answer", path, out).
			WithRemedy(remedy)
	}
	return string(m[1]), nil
}

// schemaDigest is the sha256 over the path, a NUL and the bytes of each file
// below dir, in the order of their paths.
func schemaDigest(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	sum := sha256.New()
	// The order of whole paths is not that of WalkDir where a name continues
	// another one with a byte below '/'.
	var paths []string
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	slices.Sort(paths)
	for _, path := range paths {
		data, err := root.ReadFile(filepath.FromSlash(path))
		if err != nil {
			return "", err
		}
		sum.Write([]byte(path))
		sum.Write([]byte{0})
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// limited keeps the first MiB of what is written to it.
type limited struct{ data []byte }

func (l *limited) Write(p []byte) (int, error) {
	room := max(0, 1<<20-len(l.data))
	l.data = append(l.data, p[:min(len(p), room)]...)
	return len(p), nil
}

func (l *limited) tail(n int) []byte { return l.data[max(0, len(l.data)-n):] }
