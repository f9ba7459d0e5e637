package profile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxFile is the largest file of a team that is read, in bytes.
const maxFile = 1 << 20

// folder is a profile's folder: its files, and how to call it in messages.
type folder struct {
	fsys  fs.FS
	name  string
	close func() error
}

// open finds a profile by id or by the path of its folder. A path is told by
// its separator. Links out of the folder are not followed.
func open(in *CompileInput) (*folder, error) {
	if strings.ContainsRune(in.Name, filepath.Separator) || in.Name == "." || in.Name == ".." {
		return openFolder(in.Name)
	}
	if !core.ValidID(in.Name) {
		return nil, core.Errorf(core.KindValue, "%q can't be the id of a profile", in.Name).WithRemedy("`codex-mmo profile list` shows them")
	}
	own := filepath.Join(in.ConfigDir, "profiles", in.Name)
	if _, err := os.Lstat(own); in.ConfigDir != "" && !errors.Is(err, fs.ErrNotExist) {
		return openFolder(own)
	}
	if in.Bundled != nil {
		if _, err := fs.Stat(in.Bundled, in.Name+"/profile.toml"); err == nil {
			sub, err := fs.Sub(in.Bundled, in.Name)
			return &folder{sub, "bundled:" + in.Name, func() error { return nil }}, err
		}
	}
	return nil, core.Errorf(core.KindNotFound, "no profile %q among the bundled ones or in %s", in.Name, filepath.Dir(own)).
		WithRemedy("`codex-mmo profile list` shows what there is")
}

func openFolder(path string) (*folder, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, core.Errorf(core.KindNotFound, "no profile folder %s", path).WithRemedy("`codex-mmo profile list` shows what there is")
	case err != nil:
		return nil, core.Errorf(core.KindOS, "opening profile folder %s: %w", path, err)
	}
	if err := checkOwn(path, info); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "opening profile folder %s: %w", path, err)
	}
	return &folder{root.FS(), filepath.Clean(path), root.Close}, nil
}

// checkOwn refuses a file or folder that somebody else could have written, and
// links.
func checkOwn(path string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return core.Errorf(core.KindOS, "%s is a symbolic link, which is not followed", path).WithRemedy("put the file itself there")
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != uint32(os.Getuid()) && st.Uid != 0 {
		return core.Errorf(core.KindPermission, "%s belongs to another user", path).WithRemedy("copy it to a file of your own")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return core.Errorf(core.KindPermission, "%s can be written by others (mode %04o)", path, info.Mode().Perm()).WithRemedy("chmod go-w %s", path)
	}
	return nil
}

// read returns a file of the profile.
func (f *folder) read(name string) ([]byte, error) {
	return readFS(f.fsys, name, f.name+"/"+name)
}

// readFS returns a text file of sensible size. Links, devices and files that
// others may write are refused.
func readFS(fsys fs.FS, name, where string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, core.Errorf(core.KindValue, "%s: a file of a profile is named by a plain path inside its folder", where)
	}
	info, err := fs.Lstat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "file %s is missing", where)
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "file %s: %w", where, err)
	}
	if err := checkOwn(where, info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, core.Errorf(core.KindValue, "file %s must be a regular file of at most %d bytes", where, maxFile)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "file %s: %w", where, err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, core.Errorf(core.KindOS, "file %s: %w", where, err)
	}
	if len(data) > maxFile || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, core.Errorf(core.KindValue, "file %s is not UTF-8 text of at most %d bytes", where, maxFile)
	}
	return data, nil
}

// file takes a file of the profile into the snapshot, under the name as, and
// returns that name. What can't be read is a problem of the key that names it.
func (c *compiler) file(as, name string, path ...string) string {
	data, err := c.folder.read(name)
	if err != nil {
		c.bad("can't be read: "+err.Error(), "must be a text file in the profile's folder", path...)
		return ""
	}
	if have, ok := c.out.texts[as]; ok && !bytes.Equal(have, data) {
		c.bad(quote(name)+" has the name of another file of the team", "give contracts names of their own", path...)
		return ""
	}
	c.out.AddText(as, data)
	return as
}

// script reads the script of an offline route.
func (c *compiler) script(name string, path []string) string {
	data, err := c.folder.read(name)
	if err != nil {
		c.badEntry("can't be read: "+err.Error(), "must be a text file in the profile's folder", path...)
	}
	return string(data)
}

// load reads every file of the team into trees.
func (c *compiler) load() error {
	data, err := c.folder.read("profile.toml")
	if err != nil {
		return err
	}
	c.team = parse(c.folder.name+"/profile.toml", data, &c.problems)
	if err := c.loadCatalog(); err != nil {
		return err
	}
	c.tools = empty("tool-mcp.d")
	return c.eachOwn("tool-mcp.d", func(t *tree) { c.tools.over(t) })
}

// loadCatalog lays the catalogues over each other: the bundled one, the user's,
// the profile's own.
func (c *compiler) loadCatalog() error {
	c.catalog, c.bundled = empty("catalog.toml"), empty("catalog.toml")
	if c.in.Bundled != nil {
		data, err := readFS(c.in.Bundled, "catalog.toml", "bundled:catalog.toml")
		switch {
		case err == nil:
			c.bundled = parse("bundled:catalog.toml", data, &c.problems)
			c.catalog.over(c.bundled)
		case core.KindOf(err) != core.KindNotFound:
			return err
		}
	}
	if err := c.eachOwn("catalog.d", func(t *tree) { c.catalog.over(t) }); err != nil {
		return err
	}
	data, err := c.folder.read("catalog.toml")
	if core.KindOf(err) == core.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	own := parse(c.folder.name+"/catalog.toml", data, &c.problems)
	c.version(own)
	c.catalog.over(own)
	return nil
}

// empty is a tree without anything in it. A version is no problem of it.
func empty(name string) *tree {
	t := &tree{origin: Origin{File: name}, keys: map[string]*tree{
		"schema_version": {origin: Origin{File: name}, value: int64(SchemaVersion)},
	}}
	if name == "tool-mcp.d" {
		t.keys["tool_mcp_servers"] = &tree{origin: t.origin, keys: map[string]*tree{}}
	}
	return t
}

// eachOwn reads the TOML files of a folder of the user's configuration, in the
// order of their names.
func (c *compiler) eachOwn(name string, yield func(*tree)) error {
	if c.in.ConfigDir == "" {
		return nil
	}
	dir := filepath.Join(c.in.ConfigDir, name)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.Errorf(core.KindOS, "reading %s: %w", dir, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".toml") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		data, err := readFS(os.DirFS(dir), e.Name(), path)
		if err != nil {
			return err
		}
		t := parse(path, data, &c.problems)
		c.version(t)
		yield(t)
	}
	return nil
}

// version checks a layer's own schema_version, and takes it out: laid over
// another it would hide that one's.
func (c *compiler) version(t *tree) {
	if v := t.at("schema_version"); v == nil || v.value != int64(SchemaVersion) {
		c.report(&c.problems, t, "must be there, and 2", "schema_version = 2", []string{"schema_version"})
	}
	delete(t.keys, "schema_version")
}
