package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func TestCredentials(t *testing.T) {
	config := testkit.PrivateDir(t)
	load := func(text string) (*profile.Credentials, error) {
		put(t, config, "credentials.env", text)
		return profile.LoadCredentials(config, func(name string) string { return map[string]string{"A": "of the environment", "B": ""}[name] })
	}
	keys, err := load("\ufeff# keys\r\nA=of the file\r\nB = \"quoted\" \nexport C='x=y'\n\nD=\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"A": "of the environment", "B": "quoted", "C": "x=y", "D": "", "E": ""} {
		if got, ok := keys.Lookup(name); got != want || ok != (want != "") {
			t.Errorf("Lookup(%s) = %q, %t, want %q", name, got, ok, want)
		}
	}
	for text, want := range map[string]string{
		"A=1\nsecret-value-without-name\n": ":2: there is no =", "PATH=x": `:1: "PATH" can't be the name of a secret`,
		"A=1\nA=2": ":2: A is there twice", "A=\"x": ":1: the quotes around A do not end", "A=\x00": "not UTF-8 text",
	} {
		_, err := load(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%q: %v, want %q and no value", text, err, want)
		}
	}
	if err := os.Chmod(filepath.Join(config, "credentials.env"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.LoadCredentials(config, os.Getenv); core.KindOf(err) != core.KindPermission || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	for _, value := range []string{"a\nb", "a\x7f", "\x00"} {
		err := profile.CheckSecret("A", value, profile.UseProviderHeader)
		if err == nil || !strings.Contains(err.Error(), "prohibited control character") || strings.Contains(err.Error(), value) {
			t.Errorf("CheckSecret(%q) = %v", value, err)
		}
	}
	if err := profile.CheckSecret("A", "bearer-Ω", profile.UseProviderHeader); err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	config := testkit.PrivateDir(t)
	got, err := profile.LoadSettings(config)
	want := &profile.Settings{CodexVersions: "compatible", AuthLinkMode: "shared", GatewayIdleTimeoutSeconds: 120}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("without a file: %v (-want +got):\n%s", err, diff)
	}
	put(t, config, "settings.toml", "# mine\ncodex_bin = \"codex\" # from npm\ncodex_versions = \"reviewed\"\nauth_link_mode = \"copy\"\ngateway_idle_timeout_seconds = 0\n")
	for _, id := range []string{"team", "other-team"} {
		if err := profile.SetActive(config, id); err != nil {
			t.Fatal(err)
		}
		got, err = profile.LoadSettings(config)
		want = &profile.Settings{CodexBin: "codex", CodexVersions: "reviewed", AuthLinkMode: "copy", Profile: id}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("after SetActive(%s): %v (-want +got):\n%s", id, err, diff)
		}
	}
	data, err := os.ReadFile(filepath.Join(config, "settings.toml"))
	if err != nil || !strings.Contains(string(data), "# mine\ncodex_bin = \"codex\" # from npm\n") || strings.Count(string(data), "profile =") != 1 {
		t.Errorf("SetActive left %q, %v", data, err)
	}
	for text, want := range map[string]string{
		"codex_bin = 3":                     "settings.toml:1: codex_bin: is a whole number; must be a string",
		"auth_link_mode = \"x\"":            "must be one of shared, copy",
		"gateway_idle_timeout_seconds = -1": "must be from 0 to 86400",
		"gateway_idle_timeout_second = 1":   "did you mean gateway_idle_timeout_seconds?",
		"\nprofile = \"../x\"":              "settings.toml:2: profile: is \"../x\"; must be the id of a profile",
	} {
		put(t, config, "settings.toml", text)
		if _, err := profile.LoadSettings(config); core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A clone is a profile of the user's own under a new id, and nothing is
// overwritten.
func TestClone(t *testing.T) {
	config := testkit.PrivateDir(t)
	in := &profile.CompileInput{Name: "team", Bundled: layered(), ConfigDir: config}
	dir, err := profile.Clone(in, "my-team")
	if err != nil || dir != filepath.Join(config, "profiles", "my-team") {
		t.Fatalf("Clone = %q, %v", dir, err)
	}
	testkit.AssertModes(t, config)
	s := compile(t, &profile.CompileInput{Name: "my-team", Bundled: layered(), ConfigDir: config})
	if s.ProfileID != "my-team" || s.RootAgent != "zoe" {
		t.Errorf("the clone is %s, led by %s", s.ProfileID, s.RootAgent)
	}
	if _, err := profile.Clone(in, "my-team"); core.KindOf(err) != core.KindValue {
		t.Errorf("a second clone: %v, want a ValueError", err)
	}
	if _, err := profile.Clone(in, "../x"); core.KindOf(err) != core.KindValue {
		t.Errorf("a clone outside: %v, want a ValueError", err)
	}
	put(t, config, "profiles/broken/profile.toml", "x = 1\n")
	list, err := profile.List(t.Context(), layered(), config)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Snapshot = nil
	}
	order := []string{"zoe", "worker", "auditor"}
	want := []profile.Entry{
		{ID: "broken", Origin: filepath.Join(config, "profiles", "broken"), Problems: 6},
		{ID: "my-team", Origin: dir, Description: "A team.", Agents: order},
		{ID: "team", Origin: "bundled", Description: "A team.", Agents: order},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}
