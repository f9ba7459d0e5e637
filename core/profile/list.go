package profile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Entry is one profile of a list.
type Entry struct {
	ID          string   `json:"id"`
	Origin      string   `json:"origin"` // bundled, or the path of its folder
	Description string   `json:"description,omitempty"`
	Active      bool     `json:"active"`
	Problems    int      `json:"problems"`         // that keep it from being used
	Agents      []string `json:"agents,omitempty"` // in the order of the team

	Snapshot *Snapshot `json:"-"` // nil when there are problems
}

// List looks at every profile there is: the user's own, then the bundled ones
// that none of them hides. Either may be absent, as in Names.
func List(ctx context.Context, bundled fs.FS, configDir string) ([]Entry, error) {
	settings, err := LoadSettings(configDir)
	if err != nil {
		return nil, err
	}
	names, err := Names(bundled, configDir)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, name := range names {
		e := Entry{ID: name, Origin: "bundled", Active: name == settings.Profile}
		if _, err := os.Lstat(filepath.Join(configDir, "profiles", name)); err == nil && configDir != "" {
			e.Origin = filepath.Join(configDir, "profiles", name)
		}
		report, err := Check(ctx, &CompileInput{Name: name, Bundled: bundled, ConfigDir: configDir})
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			e.Problems, e.Description = 1, err.Error()
		case report.Snapshot == nil:
			e.Problems = len(report.Problems)
		default:
			e.Snapshot, e.Description, e.Agents = report.Snapshot, report.Snapshot.Description, report.Snapshot.Order
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Names lists the ids of the profiles there are: the user's own, then the bundled
// ones that none of them hides. Either may be absent. Plain files and drafts are
// no profiles.
func Names(bundled fs.FS, configDir string) ([]string, error) {
	var names []string
	add := func(entries []fs.DirEntry) {
		for _, e := range entries {
			if e.IsDir() && core.ValidID(e.Name()) && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	if configDir != "" {
		entries, err := os.ReadDir(filepath.Join(configDir, "profiles"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, core.Errorf(core.KindOS, "reading your profiles: %w", err)
		}
		add(entries)
	}
	if bundled != nil {
		entries, err := fs.ReadDir(bundled, ".")
		if err != nil {
			return nil, core.Errorf(core.KindOS, "reading the bundled profiles: %w", err)
		}
		add(entries)
	}
	return names, nil
}

// Clone copies a profile into the user's configuration under a new id, and
// returns its folder. Nothing that is there is overwritten, and the folder appears
// whole or not at all.
func Clone(in *CompileInput, newID string) (dir string, err error) {
	if !core.ValidID(newID) {
		return "", core.Errorf(core.KindValue, "%q can't be the id of a profile", newID).WithRemedy("use a-z, 0-9, - and _")
	}
	f, err := open(in)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	all := filepath.Join(in.ConfigDir, "profiles")
	if err := folders.MakeDir(all); err != nil {
		return "", err
	}
	dir = filepath.Join(all, newID)
	if _, err := os.Lstat(dir); err == nil {
		return "", core.Errorf(core.KindValue, "there is a profile %s already", dir).WithRemedy("choose another id, or remove it first")
	}
	draft, err := newDraft(all)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(draft)
	if err := f.copyTo(draft, newID); err != nil {
		return "", err
	}
	if err := os.Rename(draft, dir); err != nil {
		return "", core.Errorf(core.KindOS, "copying profile %s: %w", in.Name, err)
	}
	return dir, store.SyncDir(all)
}

// copyTo copies the profile's files, with another id.
func (f *folder) copyTo(dir, id string) error {
	return fs.WalkDir(f.fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return core.Errorf(core.KindOS, "reading %s: %w", f.name, err)
		}
		if e.IsDir() {
			return folders.MakeDir(filepath.Join(dir, filepath.FromSlash(name)))
		}
		data, err := f.read(name)
		if err != nil {
			return err
		}
		if name == "profile.toml" {
			data, _ = setString(data, "id", id) // where there is none, the check of the copy says so
		}
		return publish(filepath.Join(dir, filepath.Dir(filepath.FromSlash(name))), filepath.Base(name), data)
	})
}

// publish writes a file whole or not at all.
func publish(dir, name string, data []byte) error {
	if err := folders.MakeDir(dir); err != nil {
		return err
	}
	_, err := store.Publish(dir, name, data)
	return err
}
