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
func (s *Spec) login(home *Home) error {
	path := filepath.Join(s.Dir, "auth.json")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindOS, "replacing the login of a home: %w", err)
	}
	if home.ModelProvider != LoginProvider || s.Login == "" {
		return nil
	}
	source := filepath.Join(s.Login, "auth.json")
	info, err := os.Stat(source)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLogin {
		return core.Errorf(core.KindNotFound, "there is no ChatGPT login in %s", source).WithRemedy("run `codex login`")
	}
	if !s.CopyLogin {
		if err := os.Symlink(source, path); err != nil {
			return core.Errorf(core.KindOS, "linking the login into a home: %w", err)
		}
		return nil
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return core.Errorf(core.KindOS, "copying the login: %w", err)
	}
	_, err = store.Publish(s.Dir, "auth.json", data)
	return err
}
