package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// manifest is the file of a snapshot whose digest is the snapshot's hash.
const manifest = "manifest.json"

// seal computes both hashes.
func (s *Snapshot) seal() error {
	gateway, err := s.gatewayHash()
	if err != nil {
		return err
	}
	s.GatewayHash = gateway
	data, err := strictjson.Marshal(s)
	if err != nil {
		return core.Errorf(core.KindValue, "profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	s.Hash = digest(data)
	return nil
}

// gatewayHash covers what a gateway is told of the routes that it serves, and
// nothing else, so that profiles that differ in their texts alone share one. It is
// empty when Codex reaches all routes by itself.
func (s *Snapshot) gatewayHash() (string, error) {
	type model struct {
		UpstreamID string   `json:"upstream_id"`
		Modalities []string `json:"modalities"`
	}
	type told struct {
		Driver  string           `json:"driver"`
		BaseURL string           `json:"base_url"`
		Secret  string           `json:"secret_name"`
		Options json.RawMessage  `json:"options"`
		Models  map[string]model `json:"models"` // by key
	}
	routes := map[string]told{} // by id
	for id, r := range s.Routes {
		if r.Direct() {
			continue
		}
		options, err := s.RouteOptions(id)
		if err != nil {
			return "", err
		}
		models := map[string]model{}
		for key, m := range s.Models {
			if m.Route == id {
				models[key] = model{m.UpstreamID, m.Modalities}
			}
		}
		routes[id] = told{r.Driver, r.BaseURL, r.CredentialEnv, options, models}
	}
	if len(routes) == 0 {
		return "", nil
	}
	data, err := strictjson.Marshal(routes)
	if err != nil {
		return "", core.Errorf(core.KindValue, "the routes of profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	return digest(data), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// AddText adds a file to a snapshot that is being made.
func (s *Snapshot) AddText(name string, data []byte) {
	if s.Files == nil {
		s.Files = map[string]string{}
	}
	if s.texts == nil {
		s.texts = map[string][]byte{}
	}
	s.texts[name], s.Files[name] = data, digest(data)
}

// Text returns a file of the snapshot. Its bytes are hashed each time: what is
// not what the snapshot was made of is refused.
func (s *Snapshot) Text(name string) ([]byte, error) {
	want, ok := s.Files[name]
	if !ok {
		return nil, core.Errorf(core.KindNotFound, "snapshot %s has no file %q", s.Hash, name)
	}
	data := s.texts[name]
	if s.dir != "" {
		var err error
		if data, err = readKept(filepath.Join(s.dir, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	}
	if digest(data) != want {
		return nil, core.Errorf(core.KindRuntime, "file %s of snapshot %s failed integrity validation: its bytes are not those it was made of", name, s.Hash).
			WithRemedy("compile the profile again by starting a new session")
	}
	return data, nil
}

// Save keeps the snapshot below the state root, unless it is there. It appears
// under its name as a whole or not at all.
func (s *Snapshot) Save(stateDir string) error {
	if kept, err := Load(stateDir, s.Hash); err == nil && kept.whole() == nil {
		return nil
	}
	all := filepath.Join(stateDir, "snapshots")
	if err := folders.MakeDir(all); err != nil {
		return err
	}
	dir, err := newDraft(all)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what was renamed is not there any more
	if err := s.write(dir); err != nil {
		return err
	}
	final := filepath.Join(all, s.Hash)
	if _, err := os.Lstat(final); err == nil { // there, and not what it should be
		if err := os.Rename(final, dir+".old"); err != nil {
			return core.Errorf(core.KindOS, "replacing a damaged snapshot: %w", err)
		}
		defer os.RemoveAll(dir + ".old")
	}
	if err := os.Rename(dir, final); err != nil {
		return core.Errorf(core.KindOS, "keeping a snapshot: %w", err)
	}
	return store.SyncDir(all)
}

// whole checks every file.
func (s *Snapshot) whole() error {
	for name := range s.Files {
		if _, err := s.Text(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Snapshot) write(dir string) error {
	data, err := strictjson.Marshal(s)
	if err != nil {
		return core.Errorf(core.KindValue, "profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		text, err := s.Text(name)
		if err != nil {
			return err
		}
		sub := filepath.Join(dir, filepath.Dir(filepath.FromSlash(name)))
		if err := folders.MakeDir(sub); err != nil {
			return err
		}
		if _, err := store.Publish(sub, filepath.Base(name), text); err != nil {
			return err
		}
	}
	_, err = store.Publish(dir, manifest, data)
	return err
}

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Load reads a snapshot that was saved. Its bytes are hashed each time: what is
// not what the session was created with is refused.
func Load(stateDir, hash string) (*Snapshot, error) {
	if !hashPattern.MatchString(hash) {
		return nil, core.Errorf(core.KindValue, "%q is not the hash of a snapshot", hash).WithRemedy("`codex-mmo status SESSION --json` shows a session's snapshot_hash")
	}
	dir := filepath.Join(stateDir, "snapshots", hash)
	path := filepath.Join(dir, manifest)
	data, err := readKept(path)
	if err != nil {
		return nil, err
	}
	if digest(data) != hash {
		return nil, core.Errorf(core.KindRuntime, "snapshot %s failed integrity validation: its bytes are not those it was named for", path)
	}
	s := &Snapshot{Hash: hash, dir: dir}
	if err := strictjson.Unmarshal(data, s, nil); err != nil {
		return nil, core.Errorf(core.KindValue, "snapshot %s is not valid: %w", path, err)
	}
	if s.Schema != SchemaVersion {
		return nil, core.Errorf(core.KindValue, "snapshot %s has schema %d, not %d", path, s.Schema, SchemaVersion)
	}
	return s, nil
}

// readKept reads a file of ours; a link is refused.
func readKept(path string) (data []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "no snapshot file %s", path)
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "snapshot file %s is refused: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, core.Errorf(core.KindOS, "snapshot file %s is refused: it must be a regular file", path)
	}
	if data, err = io.ReadAll(io.LimitReader(f, 64*maxFile)); err != nil {
		return nil, core.Errorf(core.KindOS, "reading snapshot file %s: %w", path, err)
	}
	return data, nil
}
