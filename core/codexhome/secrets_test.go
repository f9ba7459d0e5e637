package codexhome_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// A secret that a direct route puts into a header is named by its home and goes
// into the environment of its engine: from the process's environment when that
// has one that is not empty, else from credentials.env. One with a line break is
// refused without being shown.
//
// Spec: R042
func TestHeaderSecrets(t *testing.T) {
	place := testkit.NewPlace(t)
	plant(t, place.Config, "credentials.env", "EXAMPLE_HEADER_SECRET=of-the-file\nOTHER_API_KEY=other\n")
	snap := team(profile.ReadOnly)
	snap.Routes = map[string]profile.Route{
		"offline": {
			ID: "offline", Driver: profile.DriverCodexCustom, BaseURL: "http://127.0.0.1:1",
			EnvHTTPHeaders: map[string]string{"X-One": "EXAMPLE_HEADER_SECRET", "X-Two": "MISSING_SECRET", "X-Three": "EXAMPLE_HEADER_SECRET"},
		},
		"other": {ID: "other", Driver: profile.DriverChat, CredentialEnv: "OTHER_API_KEY"}, // the gateway's
	}
	home := write(t, specOf(place, snap, "lead"))
	if diff := cmp.Diff([]string{"EXAMPLE_HEADER_SECRET", "MISSING_SECRET"}, home.DirectHeaderEnvs); diff != "" {
		t.Errorf("direct header secrets (-want +got):\n%s", diff)
	}
	env := map[string]string{}
	secrets := func() (map[string]string, error) {
		credentials, err := profile.LoadCredentials(place.Config, func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		return codexhome.Secrets(snap, "lead", false, credentials.Lookup)
	}
	for value, want := range map[string]string{"": "of-the-file", "of-the-process": "of-the-process"} {
		env["EXAMPLE_HEADER_SECRET"] = value
		got, err := secrets()
		if diff := cmp.Diff(map[string]string{"EXAMPLE_HEADER_SECRET": want}, got); err != nil || diff != "" {
			t.Errorf("with %q in the environment: %v (-want +got):\n%s", value, err, diff)
		}
	}
	env["EXAMPLE_HEADER_SECRET"] = "bad\nvalue"
	_, err := secrets()
	if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "EXAMPLE_HEADER_SECRET holds a prohibited control character") || strings.Contains(err.Error(), "bad") {
		t.Errorf("Secrets = %v, want the control character refused and the value untold", err)
	}
}

// The secrets of tool servers go to the engines that start these, also for a
// native agent inside, and to no others.
//
// Spec: R052
func TestToolSecrets(t *testing.T) {
	values := map[string]string{"FIRECRAWL_API_KEY": "fire", "IDA_MCP_TOKEN": "ida"}
	lookup := func(name string) (string, bool) { v, ok := values[name]; return v, ok }
	for agent, want := range map[string]map[string]string{"lead": values, "reader": {}} {
		got, err := codexhome.Secrets(hybrid(), agent, false, lookup)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("secrets of %s: %v (-want +got):\n%s", agent, err, diff)
		}
	}
	got, err := codexhome.Secrets(hybrid(), "lead", true, lookup)
	if diff := cmp.Diff(map[string]string{"FIRECRAWL_API_KEY": "fire"}, got); err != nil || diff != "" {
		t.Errorf("secrets of a tainted session, which has no natives: %v (-want +got):\n%s", err, diff)
	}
	values["FIRECRAWL_API_KEY"] = "fire\x07"
	_, err = codexhome.Secrets(hybrid(), "lead", false, lookup)
	if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "tool MCP HTTP environment variable FIRECRAWL_API_KEY") || strings.Contains(err.Error(), "fire\x07") {
		t.Errorf("Secrets = %v, want the variable named and the value untold", err)
	}
}

// What a model without reasoning can't be told is not written.
//
// Spec: R053
func TestReasoningNoneIsNotWritten(t *testing.T) {
	snap := hybrid()
	scout := snap.Agents["scout"]
	scout.Model, scout.Effort = "scripted", "none"
	snap.Agents["scout"] = scout
	home := write(t, specOf(testkit.NewPlace(t), snap, "lead"))
	for _, path := range []string{filepath.Join(home.Dir, "config.toml"), home.NativeAgentFiles["scout"]} {
		for _, key := range []string{"model_reasoning_effort", "plan_mode_reasoning_effort", "model_supports_reasoning_summaries"} {
			if _, ok := parsed(t, path)[key]; ok {
				t.Errorf("%s has %s", path, key)
			}
		}
	}
}
