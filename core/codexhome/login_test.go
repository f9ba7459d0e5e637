package codexhome_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// login is an auth.json of a ChatGPT login that is nobody's, as fresh as can be.
const login = `{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":` + idToken +
	`,"access_token":"canary-access","refresh_token":"canary-refresh","account_id":"acc"},"last_refresh":"2125-01-01T00:00:00Z"}`

// idToken says {"email":"a@b.c","https://api.openai.com/auth":{"chatgpt_plan_type":"pro","chatgpt_account_id":"acc"}}.
const idToken = `"eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImFAYi5jIiwiaHR0cHM6Ly9hcGkub3BlbmFpLmNvbS9hdXRoIjp7ImNoYXRncHRfcGxhbl90eXBlIjoicHJvIiwiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjIn19.c2ln"`

// loggedIn is a spec of a home on a ChatGPT route, of an operator who is logged
// in.
func loggedIn(t *testing.T) *codexhome.Spec {
	t.Helper()
	place := testkit.NewPlace(t)
	snap := team(profile.ReadOnly)
	snap.Routes = map[string]profile.Route{"offline": {ID: "offline", Driver: profile.DriverCodexLogin}}
	spec := specOf(place, snap, "lead")
	spec.Login = filepath.Join(place.Home, ".codex")
	plant(t, spec.Login, "auth.json", login)
	plant(t, spec.Login, ".credentials.json", "oauth-canary")
	plant(t, spec.Login, "config.toml", "model = \"stranger\"\n")
	return spec
}

// A home on a ChatGPT route has the operator's login by a link or, when the
// settings say so, as a private copy; it never has the operator's OAuth logins
// to MCP servers, and Codex is told to keep its login in the file.
//
// Spec: R112
func TestLoginIsLinkedOrCopied(t *testing.T) {
	spec := loggedIn(t)
	source := filepath.Join(spec.Login, "auth.json")
	home := write(t, spec)
	path := filepath.Join(home.Dir, "auth.json")
	if target, err := os.Readlink(path); err != nil || target != source {
		t.Errorf("auth.json links to %q, %v, want %s", target, err, source)
	}
	spec.CopyLogin = true
	write(t, spec)
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("auth.json is %v, %v, want a regular file of mode 600", info, err)
	}
	if got := read(t, path); got != login {
		t.Errorf("auth.json holds %q, want a copy", got)
	}
	if config := read(t, home.Dir, "config.toml"); !strings.Contains(config, "cli_auth_credentials_store = 'file'\n") || strings.Contains(config, "stranger") {
		t.Errorf("config.toml is %s, want the login in a file and nothing of the operator's", config)
	}
	if home.ModelProvider != codexhome.LoginProvider || home.Model != "scripted-1" || home.CatalogPath != "" {
		t.Errorf("home = %+v, want Codex's own provider with the upstream's name of the model and its own catalogue", home)
	}
	assertNowhere(t, home.Dir, "oauth-canary")
	if _, err := os.Lstat(filepath.Join(home.Dir, ".credentials.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf(".credentials.json: %v, want none", err)
	}

	spec.CopyLogin = false // back to the link
	write(t, spec)
	if target, err := os.Readlink(path); err != nil || target != source {
		t.Errorf("auth.json links to %q, %v, want %s again", target, err, source)
	}
	spec.Snapshot.Routes = nil // another route: no login
	write(t, spec)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("auth.json of a home on a gateway's route: %v, want none", err)
	}
}

// A copy that Codex has refreshed is kept, since the operator's is used up then;
// a login that the operator made since replaces it.
func TestCopiedLoginIsKeptWhenYounger(t *testing.T) {
	spec := loggedIn(t)
	spec.CopyLogin = true
	home := write(t, spec)
	path := filepath.Join(home.Dir, "auth.json")
	if err := os.WriteFile(path, []byte("refreshed"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, spec)
	if got := read(t, path); got != "refreshed" {
		t.Errorf("auth.json holds %q, want the refreshed copy kept", got)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(spec.Login, "auth.json"), later, later); err != nil {
		t.Fatal(err)
	}
	write(t, spec)
	if got := read(t, path); got != login {
		t.Errorf("auth.json holds %q, want the operator's new login", got)
	}
}

func TestLoginMissing(t *testing.T) {
	spec := loggedIn(t)
	if err := os.Remove(filepath.Join(spec.Login, "auth.json")); err != nil {
		t.Fatal(err)
	}
	_, err := codexhome.Write(spec)
	if core.KindOf(err) != core.KindNotFound || !strings.Contains(err.Error(), "codex login") {
		t.Errorf("Write = %v, want a FileNotFoundError that says how to log in", err)
	}
}

// A login that Codex refreshes in a home is the operator's from then on: Codex
// writes through the link.
func TestRefreshReachesTheOperator(t *testing.T) {
	onEachCodex(t, func(t *testing.T, version string) {
		spec := loggedIn(t)
		place := &testkit.Place{Home: filepath.Dir(spec.Login), Workspace: spec.Workspace}
		source := filepath.Join(spec.Login, "auth.json")
		refreshed := make(chan struct{}, 16)
		openai := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/token" {
				_, _ = w.Write([]byte(`{"id_token":` + idToken + `,"access_token":"canary-second","refresh_token":"canary-next"}`))
				refreshed <- struct{}{}
				return
			}
			_, _ = w.Write([]byte(`{"models":[]}`))
		}))
		t.Cleanup(openai.Close)
		spec.CodexVersion, spec.Binary = version, self(t)
		home := write(t, spec)
		s := startCodex(t, version, place, home, []string{"-c", `openai_base_url="` + openai.URL + `"`},
			append([]string{"CODEX_REFRESH_TOKEN_URL_OVERRIDE=" + openai.URL + "/token"}, engineVars...)...)
		const id = 99
		s.send(map[string]any{"id": id, "method": "account/read", "params": map[string]any{"refreshToken": true}})
		// 0.171.0 answers with an error: it asks OpenAI for more than we play.
		s.until(func(m message) bool { return m.ID != nil && *m.ID == id })
		if len(refreshed) == 0 {
			t.Fatal("codex refreshed nothing")
		}
		if got := read(t, source); !strings.Contains(got, "canary-next") {
			t.Errorf("the operator's login is %s, want the refreshed one", got)
		}
		if target, err := os.Readlink(filepath.Join(home.Dir, "auth.json")); err != nil || target != source {
			t.Errorf("the home's login is a link to %q, %v, want it to stay the operator's", target, err)
		}
	})
}

// assertNowhere fails when a file of the folder holds the text.
func assertNowhere(t *testing.T, dir string, texts ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		for _, text := range texts {
			if strings.Contains(read(t, path), text) {
				t.Errorf("%s holds %q", path, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
