package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// npmTimeout bounds the download of about 125 to 175 MB.
const npmTimeout = 15 * time.Minute

// fetcher fetches one pinned package below base.
type fetcher struct {
	pin  pin
	base string    // the user's cache folder
	log  io.Writer // progress, for people
}

func (f *fetcher) parent() string { return filepath.Join(f.base, "codex-mmo", "codex") }
func (f *fetcher) final() string  { return filepath.Join(f.parent(), f.pin.version) }
func (f *fetcher) binary() string { return filepath.Join(f.final(), "codex") }

// fetch returns the stable path of the binary, after a download when the
// cache doesn't hold it yet. Concurrent runs wait for each other.
func (f *fetcher) fetch(ctx context.Context) (string, error) {
	if f.ready() {
		return f.binary(), nil
	}
	if err := os.MkdirAll(f.parent(), 0o700); err != nil {
		return "", fmt.Errorf("making the cache folder: %w; set XDG_CACHE_HOME to a folder you may write", err)
	}
	unlock, err := lock(filepath.Join(f.parent(), "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if f.ready() { // another run did it while this one waited
		return f.binary(), nil
	}
	if err := f.removeRemains(); err != nil {
		return "", err
	}
	return f.binary(), f.install(ctx)
}

// ready reports whether the folder of an earlier run is whole. The folder was
// renamed into place after its check, so that the size of the binary suffices
// to tell it from a damaged one; whoever runs it hashes it anyway.
func (f *fetcher) ready() bool {
	note, err := os.ReadFile(filepath.Join(f.final(), "checked"))
	if err != nil {
		return false
	}
	info, err := os.Stat(f.binary())
	return err == nil && info.Mode()&0o111 != 0 &&
		(f.pin.sha256 == "" || strings.HasPrefix(string(note), f.pin.sha256)) &&
		strings.HasSuffix(string(note), fmt.Sprintf(" %d\n", info.Size()))
}

// removeRemains clears what killed runs and a damaged cache left. The caller
// holds the lock, so nobody else uses these folders.
func (f *fetcher) removeRemains() error {
	remains, err := filepath.Glob(filepath.Join(f.parent(), ".new-*"))
	if err != nil {
		return err
	}
	for _, dir := range append(remains, f.final()) {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing what an earlier run left: %w", err)
		}
	}
	return nil
}

func (f *fetcher) install(ctx context.Context) (err error) {
	work, err := os.MkdirTemp(f.parent(), ".new-")
	if err != nil {
		return fmt.Errorf("making the work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	fmt.Fprintf(f.log, "fetching %s with npm (125 to 175 MB, once)\n", f.pin.spec())
	archive, err := f.pack(ctx, work)
	if err != nil {
		return err
	}
	if err := checkIntegrity(archive, f.pin.integrity); err != nil {
		return err
	}
	tree := filepath.Join(work, "tree")
	if err := unpack(archive, "package/vendor/"+f.pin.triple+"/", filepath.Join(tree, "codex-dir")); err != nil {
		return fmt.Errorf("unpacking %s: %w", f.pin.spec(), err)
	}
	if err := f.seal(tree); err != nil {
		return err
	}
	if err := os.Rename(tree, f.final()); err != nil {
		return fmt.Errorf("publishing the unpacked package: %w", err)
	}
	return nil
}

// pack lets npm download and verify the archive into dir.
func (f *fetcher) pack(ctx context.Context, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not in PATH and the pinned Codex comes from there; install Node.js with npm, or set MMO_CODEX_BIN to a Codex " + f.pin.version)
	}
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, npm, "pack", f.pin.spec(), "--pack-destination", dir, "--silent", "--ignore-scripts")
	cmd.Dir = dir // no package.json or .npmrc of the caller's folder
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("npm pack %s: %w%s; check the network and the registry that `npm config get registry` prints",
			f.pin.spec(), err, tail(stderr.String(), 6))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("npm pack %s left %d archives in %s, want one", f.pin.spec(), len(archives), dir)
	}
	return archives[0], nil
}

// seal checks the unpacked binary and adds the stable link and the note that
// ready reads.
func (f *fetcher) seal(tree string) error {
	native := filepath.Join(tree, "codex-dir", "bin", "codex")
	sum, size, err := hashFile(native)
	if err != nil {
		return fmt.Errorf("the package holds no binary: %w", err)
	}
	switch {
	case f.pin.sha256 == "":
		fmt.Fprintf(f.log, "no digest is pinned for %s; npm's own check passed, the binary is sha256 %s\n", f.pin.platform, sum)
	case sum != f.pin.sha256:
		return fmt.Errorf("the binary in %s has sha256 %s, want %s; nothing was installed", f.pin.spec(), sum, f.pin.sha256)
	}
	if err := os.Symlink(filepath.Join("codex-dir", "bin", "codex"), filepath.Join(tree, "codex")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, "checked"), fmt.Appendf(nil, "%s %d\n", sum, size), 0o600)
}

// checkIntegrity compares the archive with a digest in npm's notation.
func checkIntegrity(archive, want string) error {
	if want == "" {
		return nil
	}
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha512.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("the archive from npm has integrity %s, want %s; nothing was installed", got, want)
	}
	return nil
}

func hashFile(path string) (sum string, size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	h := sha256.New()
	size, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// lock takes an exclusive lock that ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the cache: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

// tail returns the last lines of text, each on a line of its own.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	if len(all) == 1 && all[0] == "" {
		return ""
	}
	return "\n  " + strings.Join(all[max(0, len(all)-lines):], "\n  ") + "\n"
}
