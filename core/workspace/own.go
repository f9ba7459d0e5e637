package workspace

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// own puts what the difference of two trees needs of the user's objects into
// the private git folder, as one pack: the folders on the way to each change on
// both sides, and the old contents. New contents are there already.
func (r *Repo) own(ctx context.Context, base, tree string) error {
	if base == tree {
		return nil
	}
	ids, err := r.needed(ctx, base, tree)
	if err != nil {
		return err
	}
	packs := filepath.Join(r.private, "objects", "pack")
	out, err := r.git.output(ctx, 1<<10, call{
		args:   []string{"pack-objects", "-q", "--threads=1", "--window=0", filepath.Join(packs, "pack")},
		gitDir: r.private, stdin: ids,
	})
	if err != nil {
		return fmt.Errorf("copying what the patch needs of the user's objects: %w", err)
	}
	name := "pack-" + strings.TrimSpace(string(out))
	files, err := filepath.Glob(filepath.Join(packs, name+".*"))
	if err == nil && (!isID(strings.TrimPrefix(name, "pack-")) || len(files) < 2) {
		err = fmt.Errorf("git pack-objects made no pack: %q", out)
	}
	for _, file := range files {
		if err == nil {
			err = os.Chmod(file, 0o400) // at any umask
		}
	}
	if err != nil {
		return err
	}
	return syncFolder(packs)
}

// needed lists the objects that own copies, one id per line.
func (r *Repo) needed(ctx context.Context, base, tree string) ([]byte, error) {
	changes, err := r.compare(ctx, base, tree, "-t")
	if err != nil {
		return nil, err
	}
	var ids bytes.Buffer
	seen := map[string]bool{} // id -> listed
	need := func(id string) {
		if !seen[id] {
			seen[id] = true
			ids.WriteString(id + "\n")
		}
	}
	need(base)
	need(tree)
	for _, c := range changes {
		if c.OldMode != modeAbsent && c.OldMode != modeGitlink {
			need(c.OldID)
		}
		if c.NewMode == modeFolder {
			need(c.NewID)
		}
	}
	return ids.Bytes(), nil
}
