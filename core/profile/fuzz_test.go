package profile_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// FuzzCompile: whatever the files hold, Compile returns a snapshot or a typed
// error. A snapshot is whole, and the same each time; each problem is one
// line, which steers no terminal.
func FuzzCompile(f *testing.F) {
	f.Add(profileText, catalogText)
	f.Add("", "")
	f.Add("agents = 1", "[models]\n[routes]")
	f.Add(strings.ReplaceAll(profileText, "zoe", "\\u0000"), catalogText)
	f.Add(strings.ReplaceAll(profileText, "zoe.md", "\\u0000\\n.md"), catalogText)
	f.Add("schema_version = 2\n\"a\\nb\" = 1\ntask_kinds = [[\"\\u001b[2J\"]]", "[routes.\"\\u202e\"]\nquirks = {a = nan}")
	f.Add(examples(f, "profile.toml"), examples(f, "catalog.toml"))
	f.Fuzz(func(t *testing.T, profileToml, catalogToml string) {
		fsys := files()
		fsys["team/profile.toml"] = &fstest.MapFile{Data: []byte(profileToml)}
		fsys["team/catalog.toml"] = &fstest.MapFile{Data: []byte(catalogToml)}
		in := &profile.CompileInput{Name: "team", Bundled: fsys}
		s, err := profile.Compile(t.Context(), in)
		if err == nil {
			again := compile(t, in)
			if len(s.Hash) != 64 || again.Hash != s.Hash {
				t.Errorf("snapshots with the hashes %q and %q", s.Hash, again.Hash)
			}
			for name := range s.Files {
				if _, err := s.Text(name); err != nil {
					t.Error(err)
				}
			}
			return
		}
		if core.KindOf(err) != core.KindValue {
			t.Errorf("Compile = %v, want a %s", err, core.KindValue)
		}
		var problems *profile.Problems
		if !errors.As(err, &problems) {
			return // the file is no text
		}
		for _, p := range problems.List {
			if p.File == "" || p.Wrong == "" || strings.ContainsFunc(p.String(), unicode.IsControl) {
				t.Errorf("a problem reads %q", p)
			}
		}
	})
}

func FuzzCredentials(f *testing.F) {
	f.Add("A=1\nB='2'\n")
	f.Add("=\n\"\nexport ")
	f.Fuzz(func(t *testing.T, text string) {
		config := testkit.PrivateDir(t)
		put(t, config, "credentials.env", text)
		put(t, config, "settings.toml", text)
		if keys, err := profile.LoadCredentials(config, nil); err == nil {
			keys.Lookup("A")
		}
		_, _ = profile.LoadSettings(config)
		_ = profile.SetActive(config, "x")
	})
}
