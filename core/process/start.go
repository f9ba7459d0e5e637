package process

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
)

// Spec says what Start runs. Nothing is inherited that is not named here.
type Spec struct {
	// Path is the binary, absolute. A script ("#!") is refused: only a binary
	// can be executed by the descriptor that was checked.
	Path string
	// SHA256 is the digest the binary must have, in hex; empty: unchecked.
	SHA256 string
	// Stamp is the file's Stamp at the time it was last found to have SHA256.
	// While the opened file still has it, its content is not read again.
	Stamp string
	Args  []string // without argv[0]
	Argv0 string   // empty: Path
	Env   []string // the whole environment, as NAME=value
	Dir   string   // working folder; empty: "/"
	// Stdin and Stdout are handed to the process; nil: /dev/null. They stay
	// open here.
	Stdin, Stdout *os.File
	// StderrPath is a file that takes the process's stderr. It is made with
	// mode 0600 and appended to, never followed when it is a symlink; empty:
	// /dev/null.
	StderrPath string
	// ExtraFiles become descriptors 3 and up. They stay open here.
	ExtraFiles []*os.File
}

// Start runs spec as the leader of its own session and process group. The
// process survives its starter; it is reaped in the background when it ends.
//
// The digest is taken of the open file, and (on Linux) that very descriptor is
// executed, so that replacing the file in between has no effect.
func Start(spec Spec) (*Child, error) {
	binary, err := openBinary(&spec)
	if err != nil {
		return nil, err
	}
	defer func() { _ = binary.Close() }()
	dir := cmp.Or(spec.Dir, "/")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, core.Errorf(core.KindOS, "start %s: its working folder %s is missing or no folder", spec.Path, dir)
	}
	files, closeFiles, err := spec.files()
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	path, closePath, err := executable(binary, spec.Path, files)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "start %s: %w", spec.Path, err)
	}
	defer closePath()
	if err := closeOnExec(); err != nil {
		return nil, core.Errorf(core.KindOS, "start %s: %w", spec.Path, err)
	}
	argv := append([]string{cmp.Or(spec.Argv0, spec.Path)}, spec.Args...)
	child, err := children.start(path, argv, &os.ProcAttr{
		Dir:   dir,
		Env:   append([]string{}, spec.Env...), // never nil: nil would mean our own
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, core.Errorf(core.KindOS, "start %s: %w", spec.Path, err)
	}
	return child, nil
}

// openBinary opens a regular file that is no script and has the digest.
func openBinary(spec *Spec) (*os.File, error) {
	// Non-blocking, because opening a FIFO would wait for a writer.
	f, err := os.OpenFile(spec.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "start %s: %w", spec.Path, err)
	}
	if err := checkBinary(f, spec); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func checkBinary(f *os.File, spec *Spec) error {
	path, want := spec.Path, spec.SHA256
	info, err := f.Stat()
	if err != nil {
		return core.Errorf(core.KindOS, "start %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return core.Errorf(core.KindValue, "start %s: not a regular file", path)
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err != nil {
		return core.Errorf(core.KindValue, "start %s: too short to be a program: %w", path, err)
	}
	if string(head) == "#!" {
		return core.Errorf(core.KindValue, "start %s: it is a script", path).
			WithRemedy("start its interpreter with the script as argument")
	}
	if want == "" || spec.Stamp != "" && spec.Stamp == Stamp(info) {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return core.Errorf(core.KindOS, "start %s: %w", path, err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return core.Errorf(core.KindOS, "start %s: read it: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, want) {
		return core.Errorf(core.KindPermission, "start %s: its sha256 is %s, pinned is %s", path, got, want).
			WithRemedy("pin the new file if the change is yours")
	}
	return nil
}

// files returns the descriptors of the process in order, and a function that
// closes those which were opened for it.
func (s *Spec) files() ([]*os.File, func(), error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, core.Errorf(core.KindOS, "start %s: %w", s.Path, err)
	}
	files := []*os.File{null, null, null}
	opened := []*os.File{null}
	closeAll := func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}
	if s.Stdin != nil {
		files[0] = s.Stdin
	}
	if s.Stdout != nil {
		files[1] = s.Stdout
	}
	if s.StderrPath != "" {
		log, err := openAppend(s.StderrPath)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, log)
		files[2] = log
	}
	return append(files, s.ExtraFiles...), closeAll, nil
}

// openAppend opens a private file for appending.
func openAppend(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open log %s: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		err = f.Chmod(0o600) // whatever the umask was, and whoever made it
	}
	if err != nil {
		_ = f.Close()
		return nil, core.Errorf(core.KindOS, "open log %s: %w", path, err)
	}
	return f, nil
}
