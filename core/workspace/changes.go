package workspace

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// ChangeKind says what happens to a path.
type ChangeKind string

// The kinds. There are no renames: each is a deletion and an addition.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// Change is the difference between two trees at one path.
type Change struct {
	Path    string     `json:"path"` // relative to the top level, raw bytes
	Kind    ChangeKind `json:"kind"`
	OldMode uint32     `json:"old_mode"` // git's mode; 0: not there
	NewMode uint32     `json:"new_mode"`
	OldID   string     `json:"old_id"` // object id; "": not there
	NewID   string     `json:"new_id"`
	OldSize int64      `json:"old_size"` // bytes
	Size    int64      `json:"size"`     // bytes of the new content
	Class   Class      `json:"class"`
	Reason  string     `json:"reason,omitempty"` // why it is not clean

	link []byte // target when it becomes a link
}

// Bounds of one patch.
const (
	maxChanges    = 20_000
	maxChangeSize = 512 << 20 // bytes of all old and new content together
	maxBatch      = 64 << 20  // bytes of small objects that are read at once
	maxPatch      = 1 << 30   // bytes of the patch for people
)

// changes finds out what leads from one tree to another, from the trees alone,
// and judges each path. Sizes are those that the objects declare; a patch
// whose sum is too large is refused before any content is read.
//
// Spec: A066 (no rename detection: both sides of a rename are changes).
func (r *Repo) changes(ctx context.Context, base, tree string) ([]Change, error) {
	if err := r.checkTrees(ctx, base, tree); err != nil || base == tree {
		return nil, err
	}
	changes, err := r.compare(ctx, base, tree)
	if err != nil {
		return nil, err
	}
	if len(changes) > maxChanges {
		return nil, core.Errorf(core.KindValue, "the patch changes %d paths; at most %d are taken", len(changes), maxChanges)
	}
	if err := r.measure(ctx, changes); err != nil {
		return nil, err
	}
	if err := r.readLinks(ctx, changes); err != nil {
		return nil, err
	}
	for i := range changes {
		c := &changes[i]
		c.Class, c.Reason = Classify([]byte(c.Path), c.OldMode, c.NewMode, c.link)
	}
	refuseTwice(changes)
	return changes, nil
}

// compare has git compare two trees; -t lists folders that differ, too.
func (r *Repo) compare(ctx context.Context, base, tree string, more ...string) ([]Change, error) {
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "--no-ext-diff"}
	out, err := r.git.output(ctx, maxListing, call{args: append(append(args, more...), base, tree), gitDir: r.private})
	var changes []Change
	if err == nil {
		changes, err = parseChanges(out)
	}
	if err != nil {
		return nil, core.Errorf(core.KindRuntime, "comparing tree %s with %s: %w", base, tree, err)
	}
	return changes, nil
}

// checkTrees fails unless two ids are those of trees that are there.
func (r *Repo) checkTrees(ctx context.Context, a, b string) error {
	if !isID(a) || !isID(b) {
		return core.Errorf(core.KindValue, "%q and %q are not the ids of two trees", a, b)
	}
	out, err := r.git.output(ctx, 1<<10, call{
		args: []string{"cat-file", "--batch-check=%(objecttype)"}, gitDir: r.private, stdin: []byte(a + "\n" + b + "\n"),
	})
	if err != nil {
		return core.Errorf(core.KindRuntime, "looking for trees %s and %s: %w", a, b, err)
	}
	if string(out) != "tree\ntree\n" {
		return core.Errorf(core.KindNotFound, "%s and %s are not two trees of repository %q: %q", a, b, r.top, out)
	}
	return nil
}

// parseChanges reads git's raw format: `:mode mode id id status NUL path NUL`.
//
// Spec: A059.
func parseChanges(out []byte) ([]Change, error) {
	var changes []Change
	head := []byte(nil)
	for record := range records(out) {
		if head == nil {
			head = record
			continue
		}
		c, err := parseChange(string(head), string(record))
		if err != nil {
			return nil, err
		}
		changes, head = append(changes, c), nil
	}
	if head != nil {
		return nil, fmt.Errorf("record %q has no path", head)
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

func parseChange(head, path string) (Change, error) {
	fields := strings.Fields(head)
	if len(fields) != 5 || !strings.HasPrefix(head, ":") || !isID(fields[2]) || !isID(fields[3]) {
		return Change{}, fmt.Errorf("unexpected record %q", head)
	}
	oldMode, err := strconv.ParseUint(fields[0][1:], 8, 32)
	if err != nil {
		return Change{}, fmt.Errorf("unexpected record %q: %w", head, err)
	}
	newMode, err := strconv.ParseUint(fields[1], 8, 32)
	if err != nil {
		return Change{}, fmt.Errorf("unexpected record %q: %w", head, err)
	}
	c := Change{Path: path, Kind: Modified, OldMode: uint32(oldMode), NewMode: uint32(newMode), OldID: fields[2], NewID: fields[3]}
	switch {
	case c.OldMode == modeAbsent:
		c.Kind, c.OldID = Added, ""
	case c.NewMode == modeAbsent:
		c.Kind, c.NewID = Deleted, ""
	}
	return c, nil
}

// measure asks for the declared size of each blob.
func (r *Repo) measure(ctx context.Context, changes []Change) error {
	var ids bytes.Buffer
	var sizes []*int64 // in the order of the questions
	for i := range changes {
		c := &changes[i]
		if isBlob(c.OldMode) {
			fmt.Fprintln(&ids, c.OldID)
			sizes = append(sizes, &c.OldSize)
		}
		if isBlob(c.NewMode) {
			fmt.Fprintln(&ids, c.NewID)
			sizes = append(sizes, &c.Size)
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	out, err := r.git.output(ctx, maxListing, call{
		args: []string{"cat-file", "--batch-check=%(objecttype) %(objectsize)"}, gitDir: r.private, stdin: ids.Bytes(),
	})
	if err != nil {
		return core.Errorf(core.KindRuntime, "asking for the sizes of a patch: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(sizes) {
		return core.Errorf(core.KindRuntime, "asking for the sizes of a patch: %d answers to %d questions", len(lines), len(sizes))
	}
	var sum int64
	for i, line := range lines {
		if _, err := fmt.Sscanf(line, "blob %d", sizes[i]); err != nil {
			return core.Errorf(core.KindRuntime, "the patch needs an object that is no blob or not there: %q", line)
		}
		if sum += *sizes[i]; *sizes[i] > maxChangeSize || sum > maxChangeSize {
			return core.Errorf(core.KindValue, "the patch holds more than %d MiB of content, which is refused", maxChangeSize>>20)
		}
	}
	return nil
}

func isBlob(mode uint32) bool { return mode != modeAbsent && mode != modeGitlink }

// readLinks reads the targets of new symbolic links. One that is too long to
// be a link is left out; Classify then refuses it.
func (r *Repo) readLinks(ctx context.Context, changes []Change) error {
	var ids []string
	for _, c := range changes {
		if c.NewMode == modeLink && c.Size <= maxLink {
			ids = append(ids, c.NewID)
		}
	}
	targets, err := r.readBlobs(ctx, ids)
	if err != nil {
		return core.Errorf(core.KindRuntime, "reading the links of a patch: %w", err)
	}
	for i := range changes {
		if c := &changes[i]; c.NewMode == modeLink && c.Size <= maxLink {
			c.link = targets[c.NewID]
		}
	}
	return nil
}

// readBlobs reads small blobs, by id.
func (r *Repo) readBlobs(ctx context.Context, ids []string) (map[string][]byte, error) {
	blobs := make(map[string][]byte, len(ids)) // id -> content
	if len(ids) == 0 {
		return blobs, nil
	}
	out, err := r.git.output(ctx, maxBatch, call{
		args: []string{"cat-file", "--batch"}, gitDir: r.private, stdin: []byte(strings.Join(ids, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		var got, kind string
		var size int
		if _, err := fmt.Sscan(string(head), &got, &kind, &size); err != nil || got != id || kind != "blob" || size >= len(rest) {
			return nil, fmt.Errorf("unexpected answer %q for object %s", head, id)
		}
		blobs[id], out = rest[:size], rest[size+1:]
	}
	return blobs, nil
}

// refuseTwice refuses paths that a damaged tree holds twice, or as a file and
// as a folder at once. The changes are sorted.
func refuseTwice(changes []Change) {
	const reason = "the tree holds the path twice"
	written := map[string]bool{} // path -> it becomes a file or link
	for _, c := range changes {
		written[c.Path] = written[c.Path] || c.NewMode != modeAbsent
	}
	for i := range changes {
		c := &changes[i]
		if i > 0 && changes[i-1].Path == c.Path {
			c.Class, c.Reason = Refused, reason
			changes[i-1].Class, changes[i-1].Reason = Refused, reason
		}
		if c.NewMode == modeAbsent {
			continue
		}
		for dir, _ := split(c.Path); dir != ""; dir, _ = split(dir) {
			if written[dir] {
				c.Class, c.Reason = Refused, reason
			}
		}
	}
}
