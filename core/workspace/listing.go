package workspace

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// listing is a tree as git lists it.
type listing struct {
	root  *item
	trees map[string]bool // id of each tree object in it -> true
	files int             // entries that are not folders
	size  int64           // bytes of all blobs; only when asked for
}

// list reads a whole tree. Names are bytes between NULs.
//
// Spec: A059.
func (r *Repo) list(ctx context.Context, tree string, sizes bool) (*listing, error) {
	args := []string{"ls-tree", "-r", "-t", "-z", "--full-tree"}
	if sizes {
		args = append(args, "-l")
	}
	out, err := r.git.output(ctx, maxListing, call{args: append(args, tree), gitDir: r.private})
	if err != nil {
		return nil, fmt.Errorf("listing tree %s: %w", tree, err)
	}
	l := &listing{root: newFolder(), trees: map[string]bool{tree: true}}
	for record := range records(out) {
		if err := l.add(record); err != nil {
			return nil, fmt.Errorf("listing tree %s: %w", tree, err)
		}
	}
	return l, nil
}

// add takes a record `mode type id[ size]<TAB>path`.
func (l *listing) add(record []byte) error {
	head, path, ok := bytes.Cut(record, []byte("\t"))
	fields := strings.Fields(string(head))
	if !ok || len(fields) < 3 || !isID(fields[2]) {
		return fmt.Errorf("unexpected record %q", record)
	}
	mode, err := strconv.ParseUint(fields[0], 8, 32)
	if err != nil {
		return fmt.Errorf("unexpected mode in %q: %w", record, err)
	}
	if fields[1] == "tree" {
		l.trees[fields[2]] = true
		return nil
	}
	l.files++
	if len(fields) == 4 && fields[3] != "-" {
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			return fmt.Errorf("unexpected size in %q: %w", record, err)
		}
		l.size += size
	}
	l.root.put(string(path), uint32(mode), fields[2])
	return nil
}

// records yields what lies between the NULs of a -z listing.
func records(out []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(out) > 0 {
			record, rest, _ := bytes.Cut(out, []byte{0})
			if !yield(record) {
				return
			}
			out = rest
		}
	}
}

// ignored asks git which of some paths the .gitignore files of a tree ignore.
// No index is read and no path is followed beyond a link. The caller has seen
// that each .gitignore on the way is an ordinary file.
func (r *Repo) ignored(ctx context.Context, dir string, paths []string) (map[string]bool, error) {
	ignored := map[string]bool{} // path -> true
	if len(paths) == 0 {
		return ignored, nil
	}
	var in bytes.Buffer
	for _, path := range paths {
		in.WriteString("./" + path + "\x00")
	}
	out, err := r.git.output(ctx, maxListing, call{
		args:   []string{"check-ignore", "-z", "--stdin", "--no-index"},
		gitDir: r.private, workTree: dir, stdin: in.Bytes(), dotted: true,
		codes: []int{1}, // none is ignored
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ignore rules of %s: %w", dir, err)
	}
	for record := range records(out) {
		ignored[strings.TrimPrefix(string(record), "./")] = true
	}
	return ignored, nil
}
