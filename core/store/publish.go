package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// ErrEvidence is in the chain of every error of ReadPublished that says that
// the file is not what its row names. The two others tell how.
var (
	ErrEvidence        = errors.New("evidence")
	ErrEvidenceMissing = fmt.Errorf("%w missing", ErrEvidence)
	ErrEvidenceDiffers = fmt.Errorf("%w differs", ErrEvidence)
)

// MaxJSON is the largest file that ReadJSON reads, in bytes.
const MaxJSON = 16 << 20

// Publish writes a file into an existing folder of ours, whole or not at all:
// a temporary file, fsync, rename, fsync of the folder. It has mode 0600 at any
// umask. A name is a plain file name. The returned reference goes into the row
// that makes the file count.
func Publish(dir, name string, data []byte) (ref FileRef, err error) {
	if err := checkName(name); err != nil {
		return FileRef{}, err
	}
	d, err := openDir(dir)
	if err != nil {
		return FileRef{}, err
	}
	defer func() { _ = d.Close() }()
	fail := func(err error) (FileRef, error) {
		return FileRef{}, core.Errorf(core.KindOS, "publishing %s: %w", filepath.Join(dir, name), err)
	}
	temp := "." + name + "." + rand.Text()[:8] + ".tmp"
	if err := writeAt(d, temp, data); err != nil {
		return fail(err)
	}
	if err := unix.Renameat(int(d.Fd()), temp, int(d.Fd()), name); err != nil {
		_ = unix.Unlinkat(int(d.Fd()), temp, 0)
		return fail(err)
	}
	if err := d.Sync(); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(data)
	return FileRef{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}, nil
}

// writeAt makes a new file in the folder and brings it to disk; on an error
// nothing stays.
func writeAt(dir *os.File, name string, data []byte) (err error) {
	fd, err := unix.Openat(int(dir.Fd()), name,
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name))
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = unix.Unlinkat(int(dir.Fd()), name, 0)
		}
	}()
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// ReadPublished returns the bytes of a published file, at most limit of them
// (0: MaxJSON), after checking that it still is what the row says: a regular
// file of ours with one name, of that size and digest. Otherwise the error has
// ErrEvidenceMissing or ErrEvidenceDiffers in its chain.
func ReadPublished(dir string, ref FileRef, limit int64) ([]byte, error) {
	if limit == 0 {
		limit = MaxJSON
	}
	path := filepath.Join(dir, ref.Name)
	missing := func(why any) error {
		return core.Errorf(core.KindRuntime, "%w: %s: %v", ErrEvidenceMissing, path, why)
	}
	differs := func(format string, args ...any) error {
		return core.Errorf(core.KindRuntime, "%w: %s %s", ErrEvidenceDiffers, path, fmt.Sprintf(format, args...))
	}
	if err := checkName(ref.Name); err != nil {
		return nil, missing(err)
	}
	d, err := openDir(dir)
	if err != nil {
		return nil, missing(err)
	}
	defer func() { _ = d.Close() }()
	fd, err := unix.Openat(int(d.Fd()), ref.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, differs("is a symbolic link")
	case err != nil:
		return nil, missing(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	if !ours(f) {
		return nil, differs("is not a regular file of this user with one name")
	}
	if ref.Size > limit {
		return nil, core.Errorf(core.KindValue, "%s has %d bytes, more than the %d that are read", path, ref.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, ref.Size+1))
	if err != nil {
		return nil, missing(err)
	}
	sum := sha256.Sum256(data)
	if int64(len(data)) != ref.Size || hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, differs("no longer holds the %d bytes that were recorded", ref.Size)
	}
	return data, nil
}

// OpenEvidence opens a file of ours for reading: no symbolic link, no pipe, no
// file of somebody else's and none with a second name.
func OpenEvidence(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, core.Errorf(core.KindNotFound, "reading %s: %w", path, err)
		}
		return nil, core.Errorf(core.KindOS, "reading %s: %w", path, err)
	}
	if !ours(f) {
		_ = f.Close()
		return nil, core.Errorf(core.KindOS, "%s is refused: it must be a regular file of this user with one name", path)
	}
	return f, nil
}

// ReadJSON decodes a strict JSON file of ours into v: no symbolic link, no
// duplicate or unknown keys, nothing after the value.
func ReadJSON(path string, v any) error {
	f, err := OpenEvidence(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxJSON+1))
	if err != nil {
		return core.Errorf(core.KindOS, "reading %s: %w", path, err)
	}
	if len(data) > MaxJSON {
		return core.Errorf(core.KindValue, "%s is larger than %d bytes", path, MaxJSON)
	}
	if err := strictjson.Unmarshal(data, v, nil); err != nil {
		return core.Errorf(core.KindValue, "%s is not valid: %w", path, err)
	}
	return nil
}

// WriteJSON replaces a file by the strict JSON of v, as Publish does. A value
// that can't be encoded leaves the file as it was.
func WriteJSON(path string, v any) error {
	data, err := strictjson.Marshal(v)
	if err != nil {
		return core.Errorf(core.KindValue, "%s: %w", path, err)
	}
	_, err = Publish(filepath.Dir(path), filepath.Base(path), append(data, '\n'))
	return err
}

// checkName accepts a plain, visible file name.
func checkName(name string) error {
	if name == "" || len(name) > 200 || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return core.Errorf(core.KindValue, "%q can't be the name of a file in a folder of ours", name)
	}
	return nil
}

func openDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "opening folder %s: %w", dir, err)
	}
	return f, nil
}

func SyncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil {
		return core.Errorf(core.KindOS, "syncing folder %s: %w", dir, err)
	}
	return nil
}

// ours reports whether the open file is a regular file of this user that has
// no second name elsewhere.
func ours(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	stat, ok := info.Sys().(*unixStat)
	return ok && int(stat.Uid) == os.Geteuid() && stat.Nlink == 1
}
