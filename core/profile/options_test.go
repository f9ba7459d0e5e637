package profile_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// on makes the team's one route lead to a provider by a driver, with further
// keys.
func on(t *testing.T, driver, keys string) *profile.CompileInput {
	t.Helper()
	fsys := files()
	edit(t, fsys, "catalog.toml", `driver = "offline"`, `driver = "`+driver+"\"\nbase_url = \"https://example.org/v1\"\n"+keys)
	edit(t, fsys, "catalog.toml", "billing_mode = \"scripted\"\nscript = \"s.script\"", `billing_mode = "api"`)
	if driver != profile.DriverChat {
		edit(t, fsys, "catalog.toml", `"openai_chat"`, `"openai_responses"`)
	}
	return &profile.CompileInput{Name: "team", Bundled: fsys}
}

// TestRouteOptions: all that the gateway can be told of a route can be said in a
// catalogue.
func TestRouteOptions(t *testing.T) {
	in := on(t, profile.DriverChat, `headers = { X-Title = "mine" }
env_http_headers = { X-Org = "ORG_KEY" }
session_header = "X-Session-Id"
body = { provider = { only = ["a"], allow_fallbacks = false } }
retries = 0
quirks = { reasoning_content = true }
`)
	edit(t, in.Bundled.(fstest.MapFS), "catalog.toml", "context_window = 200000", "context_window = 200000\nprice = { input = 2, cached_input = 0.2, cache_write = 2.5, output = 10 }")
	const want = `{"body":{"provider":{"allow_fallbacks":false,"only":["a"]}},"headers":{"X-Title":"mine"},` +
		`"prices":{"m-big":{"cache_write":"2.5","cached_input":"0.2","input":"2","output":"10"}},` +
		`"quirks":{"reasoning_content":true},"retries":0,"secret_headers":{"X-Org":"ORG_KEY"},"session_header":"X-Session-Id"}`
	if got, err := compile(t, in).RouteOptions("r"); err != nil || string(got) != want {
		t.Errorf("RouteOptions = %s, %v, want %s", got, err, want)
	}
}

func TestRouteOptionsAreChecked(t *testing.T) {
	for name, tt := range map[string]struct{ driver, keys, want string }{
		"too many retries":               {profile.DriverChat, "retries = 11", "routes.r.retries: is 11; must be from 0 to 10"},
		"no header":                      {profile.DriverChat, `session_header = "X Y"`, `routes.r.session_header: can't name the conversation; use another name`},
		"key in a direct route's header": {profile.DriverCodexCustom, `headers = { x-api-key = "k" }`, "routes.r.headers.x-api-key: would put a key in the open"},
		"header of ours":                 {profile.DriverChat, `headers = { Host = "h" }`, "routes.r.headers.Host: can't be set; leave it out"},
		"two keys":                       {profile.DriverChat, "credential_env = \"K\"\nenv_http_headers = { Authorization = \"L\" }", "routes.r.env_http_headers.Authorization: has two secrets"},
		"secret in a header of ours":     {profile.DriverChat, `env_http_headers = { Cookie = "K" }`, "routes.r.env_http_headers.Cookie: can't be set"},
		"misspelt quirk":                 {profile.DriverChat, "quirks = { no_image = true }", "routes.r.quirks.no_image: is no quirk; did you mean no_images?"},
		"unknown quirk":                  {profile.DriverChat, "quirks = { sings = true }", "routes.r.quirks.sings: is no quirk; the quirks are effort, reasoning_content,"},
		"quirk of another type":          {profile.DriverChat, `quirks = { omit = "tool_choice" }`, `routes.r.quirks.omit: can't be "tool_choice"; must be a list of strings`},
		"quirk within":                   {profile.DriverChat, `quirks = { effort = { high = 3 } }`, `routes.r.quirks.effort: can't be {"high":3}; must be a table of strings`},
		"unknown way to think":           {profile.DriverChat, `quirks = { thinking = "bugdet" }`, `routes.r.quirks.thinking: can't be "bugdet"; must be "budget", "off" or ""`},
		"without a gateway": {
			profile.DriverCodexCustom, "retries = 1",
			"routes.r.retries: is done by the gateway, which driver codex_custom does not use; leave it out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := profile.Compile(t.Context(), on(t, tt.driver, tt.keys))
			if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Compile = %v, want a ValueError with %q", err, tt.want)
			}
		})
	}
}
