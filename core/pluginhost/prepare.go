package pluginhost

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/plugins"
)

// prepare checks a spec, completes it and makes its instance folder.
func prepare(spec *Spec) (*Spec, error) {
	s := *spec
	if s.Timeout <= 0 {
		s.Timeout = startTimeout
	}
	if s.LogPath == "" {
		s.LogPath = filepath.Join(s.Dir, "plugin.log")
	}
	if !validKind(s.Kind) {
		return nil, core.Errorf(core.KindValue, "start plugin %s: %q is no kind of plugin", s.Path, s.Kind)
	}
	for _, path := range []string{s.Path, s.Dir, s.LogPath} {
		if !filepath.IsAbs(path) {
			return nil, core.Errorf(core.KindValue, "start plugin %s: %q is no absolute path", s.Path, path)
		}
	}
	s.Dir = filepath.Clean(s.Dir)
	if n := len(filepath.Join(s.Dir, socketName)); n >= maxSocketPath {
		return nil, core.Errorf(core.KindValue, "start plugin %s: the path of its socket in %s would have %d bytes, at most %d work",
			s.Path, s.Dir, n, maxSocketPath-1).WithRemedy("set MMO_RUNTIME_DIR to a shorter folder")
	}
	if err := makeInstance(s.Dir); err != nil {
		return nil, core.Errorf(core.KindOS, "make plugin folder %s: %w", s.Dir, err)
	}
	if err := plugins.WriteTLS(s.Dir, time.Now()); err != nil {
		return nil, errors.Join(core.Errorf(core.KindOS, "%w", err), os.RemoveAll(s.Dir))
	}
	return &s, nil
}

// makeInstance makes an instance folder, or takes an empty one of ours.
func makeInstance(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return errors.New("it is not a folder of ours")
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return errors.New("it is in use: every start needs a folder of its own")
	}
	return os.Chmod(dir, 0o700) // whatever the umask was
}
