package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// capabilitiesFile is the only place that holds the root's raw token, because
// a resumed root must be given the same one:
//
//	{"root_mcp_token":"…"}
//
// Every home's permission profile denies it to the model's shell, and it goes
// when the session ends.
type capabilitiesFile struct {
	RootToken string `json:"root_mcp_token"`
}

func (s *Supervisor) capabilitiesPath() string {
	return filepath.Join(s.cfg.Folders.SessionDir(s.session), "capabilities.json")
}

// rootToken returns the root's capability, minted at the session's first
// launch.
func (s *Supervisor) rootToken(ctx context.Context, ref string) (string, error) {
	var file capabilitiesFile
	err := store.ReadJSON(s.capabilitiesPath(), &file)
	if err == nil && s.knows(access.HashToken(file.RootToken)) {
		return file.RootToken, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", core.Errorf(core.KindPermission, "the root's capability is unavailable: %w", err)
	}
	token, _, err := s.mintToken(ctx, ref, capCaller, 0)
	if err != nil {
		return "", err
	}
	if err := store.WriteJSON(s.capabilitiesPath(), capabilitiesFile{RootToken: token}); err != nil {
		return "", err
	}
	return token, nil
}

func (s *Supervisor) knows(hash string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.caps[hash]
	return ok
}

func (s *Supervisor) removeCapabilities() error {
	if err := os.Remove(s.capabilitiesPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindOS, "removing the session's capabilities: %w", err)
	}
	return nil
}
