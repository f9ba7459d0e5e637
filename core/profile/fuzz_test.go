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

// FuzzCredentials: whatever credentials.env and settings.toml hold, what is wrong
// with them is a typed error that holds no secret, and settings that could be
// read can be read after another profile was made the active one.
func FuzzCredentials(f *testing.F) {
	f.Add("A=1\nB='2'\n")
	f.Add("=\n\"\nexport ")
	f.Add("SECRET canary")
	f.Add("codex_bin = \"a\" # why\nprofile = \"b\" # mine\n")
	f.Add("profile = \"\"\"\nb\"\"\"\ncodex_bin = \"\"\"\nprofile = 1\"\"\"")
	f.Add("\ufeffprofile = 'b'\r\nauth_link_mode = 'copy'\r\n")
	f.Add("\ufeffcodex_bin = 'b'\n")
	f.Add("\"profile\" = '''b''' # mine")
	f.Fuzz(func(t *testing.T, text string) {
		config := testkit.PrivateDir(t)
		put(t, config, "credentials.env", text)
		put(t, config, "settings.toml", text)
		keys, err := profile.LoadCredentials(config, nil)
		if err == nil {
			keys.Lookup("A")
		} else if core.KindOf(err) != core.KindValue || strings.Contains(err.Error(), "canary") {
			t.Errorf("LoadCredentials = %v, want a %s without a secret", err, core.KindValue)
		}
		before, err := profile.LoadSettings(config)
		if err != nil {
			if core.KindOf(err) != core.KindValue {
				t.Errorf("LoadSettings = %v, want a %s", err, core.KindValue)
			}
			_ = profile.SetActive(config, "x")
			return
		}
		if err := profile.SetActive(config, "x"); err != nil {
			t.Fatalf("SetActive: %v", err)
		}
		before.Profile = "x"
		after, err := profile.LoadSettings(config)
		if err != nil || *after != *before {
			t.Errorf("after SetActive the settings are %+v, %v, want %+v", after, err, before)
		}
	})
}
