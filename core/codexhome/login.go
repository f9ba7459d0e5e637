package codexhome

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// maxLogin is the largest auth.json that is copied, in bytes.
const maxLogin = 1 << 20

// login gives a home on a ChatGPT route the operator's login: by a link, so
// that a refreshed one reaches every home (refresh tokens are good for one use),
// or as a copy when the operator wants that. A home on another route has none.
// What already is as it should be stays untouched: a live Codex may be reading it.
func (s *Spec) login(home *Home) error {
	path := filepath.Join(s.Dir, "auth.json")
	if home.ModelProvider != LoginProvider || s.Login == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return core.Errorf(core.KindOS, "taking the login out of a home: %w", err)
		}
		return nil
	}
	source := filepath.Join(s.Login, "auth.json")
	info, err := os.Stat(source)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLogin {
		return core.Errorf(core.KindNotFound, "there is no ChatGPT login in %s", source).WithRemedy("run `codex login`")
	}
	if s.CopyLogin {
		return copyLogin(source, path, info)
	}
	if target, err := os.Readlink(path); err == nil && target == source {
		return nil
	}
	link := path + ".new"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindOS, "linking the login into a home: %w", err)
	}
	if err := errors.Join(os.Symlink(source, link), os.Rename(link, path)); err != nil {
		return core.Errorf(core.KindOS, "linking the login into a home: %w", err)
	}
	return nil
}

// copyLogin copies the login, unless the home's own is the younger one: Codex
// has refreshed it then, and the operator's is used up.
func copyLogin(source, path string, info fs.FileInfo) error {
	have, err := os.Lstat(path)
	if err == nil && have.Mode() == 0o600 && !have.ModTime().Before(info.ModTime()) {
		return nil
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return core.Errorf(core.KindOS, "copying the login: %w", err)
	}
	_, err = store.Publish(filepath.Dir(path), filepath.Base(path), data)
	return err
}
