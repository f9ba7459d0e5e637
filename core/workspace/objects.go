package workspace

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // git's object ids, not a security measure
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// newHash returns the hash of a repository whose ids have this many digits.
func newHash(idLength int) hash.Hash {
	if idLength == 2*sha256.Size {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // see above
}

// hasher returns a hash that has seen the head of an object.
func hasher(idLength int, kind string, size int64) hash.Hash {
	h := newHash(idLength)
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

// hashBytes returns the id that git gives to an object.
func hashBytes(idLength int, kind string, data []byte) string {
	h := hasher(idLength, kind, int64(len(data)))
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// hashReader returns the id of a blob of exactly size bytes. A copy goes to w.
func hashReader(idLength int, r io.Reader, size int64, w io.Writer) (string, error) {
	h := hasher(idLength, "blob", size)
	n, err := io.Copy(io.MultiWriter(h, w), io.LimitReader(r, size+1))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", errChanging
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// errChanging says that a file had another size than when it was opened.
var errChanging = errors.New("the file changed while it was read")

// objects writes loose objects into the private git folder. Writing them
// ourselves keeps git from looking at hostile files. sync makes them durable.
type objects struct {
	dir      string // the folder objects
	idLength int
	dirty    map[string]bool // sub-folder -> has a new object
}

func newObjects(private string, idLength int) *objects {
	return &objects{dir: filepath.Join(private, "objects"), idLength: idLength, dirty: map[string]bool{}}
}

// blob writes a blob of exactly size bytes and returns its id.
func (o *objects) blob(r io.Reader, size int64) (string, error) {
	return o.write("blob", r, size)
}

// tree writes a tree object.
func (o *objects) tree(data []byte) (string, error) {
	return o.write("tree", bytes.NewReader(data), int64(len(data)))
}

// write streams an object into a temporary file, which gets the object's name
// when its id is known: nothing is read twice.
func (o *objects) write(kind string, r io.Reader, size int64) (id string, err error) {
	temp := filepath.Join(o.dir, "tmp_obj_"+rand.Text()[:12])
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(temp) }() // fails when it has its name
	defer func() { err = errors.Join(err, f.Close()) }()
	z, _ := zlib.NewWriterLevel(f, zlib.BestSpeed) // fails for an unknown level only
	h := hasher(o.idLength, kind, size)
	if _, err := fmt.Fprintf(z, "%s %d\x00", kind, size); err != nil {
		return "", err
	}
	n, err := io.Copy(io.MultiWriter(h, z), io.LimitReader(r, size+1))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", errChanging
	}
	id = hex.EncodeToString(h.Sum(nil))
	dir := filepath.Join(o.dir, id[:2])
	name := filepath.Join(dir, id[2:])
	if _, err := os.Lstat(name); err == nil {
		return id, nil
	}
	if err := errors.Join(z.Close(), f.Chmod(0o400), f.Sync()); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	o.dirty[id[:2]] = true
	return id, os.Rename(temp, name)
}

// sync brings the names of the objects to disk.
func (o *objects) sync() error {
	for _, sub := range slices.Sorted(maps.Keys(o.dirty)) {
		if err := syncFolder(filepath.Join(o.dir, sub)); err != nil {
			return err
		}
	}
	if len(o.dirty) == 0 {
		return nil
	}
	clear(o.dirty)
	return syncFolder(o.dir)
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// item is one entry of a tree: a file, link or gitlink, or a folder of items.
type item struct {
	mode  uint32
	id    string
	below map[string]*item // name -> item; nil: not a folder
}

func newFolder() *item { return &item{mode: modeFolder, below: map[string]*item{}} }

// put sets the item at a path, making the folders on the way. A file that is
// in the way gives way: the caller puts only paths that exist on one disk.
func (i *item) put(path string, mode uint32, id string) {
	at := i
	dir, name := split(path)
	for part := range components(dir) {
		next := at.below[part]
		if next == nil || next.below == nil {
			next = newFolder()
			at.below[part] = next
		}
		at = next
	}
	at.below[name] = &item{mode: mode, id: id}
}

// store writes the tree objects of a folder, but for those that are known, and
// returns the id of its own. Folders without any file have no entry, as in git.
func (i *item) store(o *objects, known map[string]bool) (string, error) {
	for name, sub := range i.below {
		if sub.below == nil {
			continue
		}
		id, err := sub.store(o, known)
		if err != nil {
			return "", err
		}
		if sub.id = id; len(sub.below) == 0 {
			delete(i.below, name)
		}
	}
	data, err := i.encode()
	if err != nil {
		return "", err
	}
	if id := hashBytes(o.idLength, "tree", data); known[id] {
		return id, nil
	}
	return o.tree(data)
}

// encode writes a tree object: entries in the order of their names, where a
// folder's name counts with a slash at its end.
func (i *item) encode() ([]byte, error) {
	names := slices.SortedFunc(maps.Keys(i.below), func(a, b string) int {
		return bytes.Compare(i.sortKey(a), i.sortKey(b))
	})
	var b bytes.Buffer
	for _, name := range names {
		sub := i.below[name]
		id, err := hex.DecodeString(sub.id)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
		b.WriteString(strconv.FormatUint(uint64(sub.mode), 8))
		b.WriteByte(' ')
		b.WriteString(name)
		b.WriteByte(0)
		b.Write(id)
	}
	return b.Bytes(), nil
}

func (i *item) sortKey(name string) []byte {
	if i.below[name].below != nil {
		name += "/"
	}
	return []byte(name)
}
