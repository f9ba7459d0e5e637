package profile

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// draftPrefix begins the names of folders that are being made beside those they
// will become. No id and no hash begins so.
const draftPrefix = ".codex-mmo-draft-"

// draftAge is when nobody can be at work on a draft any more: one is made in
// well under a second.
const draftAge = time.Hour

// newDraft makes a folder in dir to be renamed when it is complete, and removes
// those that killed processes have left there.
func newDraft(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", core.Errorf(core.KindOS, "making a draft: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info() // who is gone meanwhile was renamed
		if err == nil && strings.HasPrefix(e.Name(), draftPrefix) && time.Since(info.ModTime()) > draftAge {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // what can't be removed harms nobody
		}
	}
	draft, err := os.MkdirTemp(dir, draftPrefix)
	if err != nil {
		return "", core.Errorf(core.KindOS, "making a draft: %w", err)
	}
	return draft, nil
}
