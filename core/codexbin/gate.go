package codexbin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// Policies: which Codex is admitted.
const (
	PolicyCompatible = "compatible" // has what we use; the default
	PolicyReviewed   = "reviewed"   // its whole protocol was read by us
)

// Verdicts on a binary.
const (
	VerdictReviewed   = "reviewed"
	VerdictCompatible = "compatible"

	verdictRefused = "refused" // only in the cache
)

// reviewed maps the digest of an experimental schema to the version that was
// reviewed with it.
var reviewed = map[string]string{
	"fcfeaf23728b96ab73916a21302eb7a16629e67ee99f7ee47b60fad6b6e5ee1a": "0.149.0",
	"fbc80bd50bb2f7b5214f4181988f49e4f4ae5b65fc287e4c3d6fc313d03a2a7a": "0.171.0",
}

// reviewedVersions lists them, oldest first. All are 0.x with three digits, so
// the order of their texts is theirs.
func reviewedVersions() []string { return slices.Sorted(maps.Values(reviewed)) }

// Pin is a Codex that was admitted. A session that is created with it uses
// nothing else.
type Pin struct {
	Path         string // absolute, links resolved
	SHA256       string // hex, of the file
	Stamp        string // process.Stamp of the file when it had that digest
	Version      string
	SchemaSHA256 string // hex, of the experimental protocol schema
	Verdict      string // VerdictReviewed, VerdictCompatible
}

// GateOptions tune Gate. Nil is valid.
type GateOptions struct {
	Policy string // PolicyCompatible when empty
	// CacheDir is a private folder, made when it is absent, where verdicts are kept, by the binary's
	// digest, and where Codex runs while it is examined. Empty: nothing is
	// kept.
	CacheDir string
}

func (o *GateOptions) policy() string {
	if o == nil || o.Policy == "" {
		return PolicyCompatible
	}
	return o.Policy
}

func (o *GateOptions) cacheDir() string {
	if o == nil {
		return ""
	}
	return o.CacheDir
}

// Gate decides whether the native Codex at path may be used. A binary that is
// new to the cache is run twice, for its version and its schema, with an empty
// home and without network use. The refusal is KindAppServer and says
// "protocol version mismatch".
func Gate(ctx context.Context, path string, opts *GateOptions) (Pin, error) {
	policy := opts.policy()
	if policy != PolicyCompatible && policy != PolicyReviewed {
		return Pin{}, core.Errorf(core.KindValue, "codex_versions is %q; it is %s or %s", policy, PolicyCompatible, PolicyReviewed)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		kind := core.KindOS
		if errors.Is(err, fs.ErrNotExist) {
			kind = core.KindNotFound
		}
		return Pin{}, core.Errorf(kind, "codex %s: %w", path, err).WithRemedy(remedy)
	}
	if !executable(real) || !isNative(real) {
		return Pin{}, core.Errorf(core.KindOS, "codex %s is not a native executable", real).WithRemedy(remedy)
	}
	if dir := opts.cacheDir(); dir != "" {
		if err := folders.MakeDir(dir); err != nil {
			return Pin{}, err
		}
	}
	c := loadCache(opts.cacheDir())
	digest, err := c.digest(real)
	if err != nil {
		return Pin{}, err
	}
	v, known := c.Binaries[digest]
	if !known || v.List != useList {
		if v, err = examine(ctx, real, opts.cacheDir()); err != nil {
			return Pin{}, err
		}
		c.Binaries[digest], c.changed = v, true
	}
	if err := c.save(); err != nil {
		return Pin{}, err
	}
	pin := Pin{Path: real, SHA256: digest, Stamp: c.Files[real].Stamp, Version: v.Version, SchemaSHA256: v.SchemaSHA256, Verdict: v.Verdict}
	if v.Verdict == verdictRefused || policy == PolicyReviewed && v.Verdict != VerdictReviewed {
		return Pin{}, mismatch(pin, policy, v.Missing)
	}
	return pin, nil
}

func mismatch(pin Pin, policy string, missing []string) error {
	why := "it is not one of the reviewed versions"
	if len(missing) > 0 {
		shown := missing[:min(len(missing), 5)]
		why = fmt.Sprintf("it lacks what this build uses: %s", strings.Join(shown, ", "))
		if more := len(missing) - len(shown); more > 0 {
			why += fmt.Sprintf(" and %d more", more)
		}
	}
	err := core.Errorf(core.KindAppServer, "protocol version mismatch: codex %s at %s (schema %s): %s; reviewed: %s",
		pin.Version, pin.Path, pin.SchemaSHA256, why, strings.Join(reviewedVersions(), ", "))
	if policy == PolicyReviewed && len(missing) == 0 {
		return err.WithRemedy("%s, or set codex_versions = %q", remedy, PolicyCompatible)
	}
	return err.WithRemedy(remedy)
}

// examine runs a binary and judges its protocol.
func examine(ctx context.Context, path, cacheDir string) (v verdict, err error) {
	dir, err := os.MkdirTemp(cacheDir, "codex-gate-") // 0700
	if err != nil {
		return verdict{}, core.Errorf(core.KindOS, "examining codex %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	version, err := askVersion(ctx, path, dir)
	if err != nil {
		return verdict{}, err
	}
	schema := filepath.Join(dir, "schema")
	if _, err := run(ctx, path, dir, "app-server", "generate-json-schema", "--experimental", "--out", schema); err != nil {
		return verdict{}, err
	}
	sum, err := schemaDigest(schema)
	if err != nil {
		return verdict{}, core.Errorf(core.KindOS, "reading the schema of codex %s: %w", path, err)
	}
	v = verdict{Version: version, SchemaSHA256: sum, List: useList, Verdict: VerdictReviewed}
	if _, ok := reviewed[sum]; ok {
		return v, nil
	}
	if v.Missing, err = missing(schema); err != nil {
		return verdict{}, core.Errorf(core.KindAppServer, "protocol version mismatch: the schema of codex %s can't be read: %w", path, err).
			WithRemedy(remedy)
	}
	v.Verdict = VerdictCompatible
	if len(v.Missing) > 0 {
		v.Verdict = verdictRefused
	}
	return v, nil
}
