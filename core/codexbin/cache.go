package codexbin

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// cacheVersion is raised when the file's shape changes; another one is begun
// anew.
const cacheVersion = 1

// cache remembers digests of files and verdicts on binaries, so that a binary
// is hashed and examined once. Who runs a pinned binary hashes what he runs.
//
// On disk it is <cache>/codex-gate.json:
//
//	{"version":1,
//	 "files":{"/…/bin/codex":{"stamp":"2054:5242921:258…:17…:17…","sha256":"bbc3…"}},
//	 "binaries":{"bbc3…":{"version":"0.149.0","schema_sha256":"fcfe…","verdict":"reviewed","list":"5c1d…"}}}
type cache struct {
	Version  int                `json:"version"`
	Files    map[string]fileSum `json:"files"`    // path -> digest of what is there
	Binaries map[string]verdict `json:"binaries"` // hex sha256 of the binary -> verdict

	dir     string
	changed bool
}

type fileSum struct {
	Stamp  string `json:"stamp"` // device, inode, size, mtime and ctime
	SHA256 string `json:"sha256"`
}

type verdict struct {
	Version      string   `json:"version"`
	SchemaSHA256 string   `json:"schema_sha256"`
	Verdict      string   `json:"verdict"`
	Missing      []string `json:"missing,omitempty"`
	List         string   `json:"list"` // digest of the list of uses that it was judged by
}

// loadCache reads the cache. One that is absent or can't be read is begun anew:
// it holds nothing that can't be found out again.
func loadCache(dir string) *cache {
	c := &cache{dir: dir}
	if dir != "" {
		if err := store.ReadJSON(c.path(), c); err != nil || c.Version != cacheVersion {
			*c = cache{dir: dir}
		}
	}
	c.Version = cacheVersion
	if c.Files == nil {
		c.Files = map[string]fileSum{}
	}
	if c.Binaries == nil {
		c.Binaries = map[string]verdict{}
	}
	return c
}

func (c *cache) path() string { return filepath.Join(c.dir, "codex-gate.json") }

// save writes the cache if something was learnt.
func (c *cache) save() error {
	if c.dir == "" || !c.changed {
		return nil
	}
	c.changed = false
	return store.WriteJSON(c.path(), c)
}

// digest returns the sha256 of the file, from the cache while the file's
// identity, size and times are the same.
func (c *cache) digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", core.Errorf(core.KindOS, "codex %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	stamp, err := stampOf(f)
	if err != nil {
		return "", core.Errorf(core.KindOS, "codex %s: %w", path, err)
	}
	if known := c.Files[path]; known.Stamp == stamp {
		return known.SHA256, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", core.Errorf(core.KindOS, "hashing codex %s: %w", path, err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	c.Files[path] = fileSum{Stamp: stamp, SHA256: digest}
	c.changed = true
	return digest, nil
}

func stampOf(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return process.Stamp(info), nil
}
