package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// Credentials are the secrets that are there, by name. They never show
// themselves.
type Credentials struct {
	getenv func(string) string
	file   map[string]string
}

// EnvCredentials are those of an environment alone.
func EnvCredentials(getenv func(string) string) *Credentials { return &Credentials{getenv: getenv} }

// LoadCredentials reads credentials.env of the user's configuration; getenv, an
// environment, goes before it. A file that is not there holds nothing.
//
//	# a comment
//	OPENAI_API_KEY=sk-…
//	ZAI_CODING_API_KEY="in quotes, if you like"
func LoadCredentials(configDir string, getenv func(string) string) (*Credentials, error) {
	c := EnvCredentials(getenv)
	path := filepath.Join(configDir, "credentials.env")
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = checkOwn(path, info)
	}
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, core.Errorf(core.KindPermission, "%s can be read by others (mode %04o)", path, info.Mode().Perm()).WithRemedy("chmod 600 %s", path)
	}
	data, err := readFS(os.DirFS(configDir), "credentials.env", path)
	if err != nil {
		return nil, err
	}
	c.file, err = parseCredentials(path, string(data))
	return c, err
}

func parseCredentials(path, text string) (map[string]string, error) {
	found := map[string]string{}
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		bad := func(format string, args ...any) error {
			return core.Errorf(core.KindValue, "%s:%d: %s", path, i+1, fmt.Sprintf(format, args...)).WithRemedy("a line is NAME=value, a comment begins with #")
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return nil, bad("there is no =")
		}
		if !validSecretName(name) {
			return nil, bad("%.40q can't be the name of a secret", name)
		}
		if _, twice := found[name]; twice {
			return nil, bad("%s is there twice", name)
		}
		if q := value; len(q) > 0 && (q[0] == '"' || q[0] == '\'') {
			if len(q) < 2 || q[len(q)-1] != q[0] {
				return nil, bad("the quotes around %s do not end", name)
			}
			value = q[1 : len(q)-1]
		}
		found[name] = value
	}
	return found, nil
}

// Lookup returns a secret: of the environment, else of the file. An empty one is
// none.
func (c *Credentials) Lookup(name string) (value string, ok bool) {
	if c.getenv != nil {
		if v := c.getenv(name); v != "" {
			return v, true
		}
	}
	v := c.file[name]
	return v, v != ""
}

// Has reports whether a secret is there and not empty.
func (c *Credentials) Has(name string) bool {
	_, ok := c.Lookup(name)
	return ok
}

// String hides the secrets.
func (c *Credentials) String() string { return "[credentials]" }

// GoString hides the secrets from %#v.
func (c *Credentials) GoString() string { return c.String() }

// Settings are the user's, from settings.toml.
type Settings struct {
	CodexBin                  string // a path or a name on PATH; empty: find one
	CodexVersions             string // compatible, reviewed
	AuthLinkMode              string // AuthShared, AuthCopy
	GatewayIdleTimeoutSeconds int
	Profile                   string // the active one; empty: none
}

// How homes get the operator's ChatGPT login.
const (
	AuthShared = "shared" // by a link: a refreshed login reaches all
	AuthCopy   = "copy"
)

// LoginNote says how homes get the operator's ChatGPT login, by the
// AuthLinkMode of the settings, and what that means.
func LoginNote(mode string) string {
	if mode == AuthCopy {
		return "homes have copies of the ChatGPT login: a refresh token is good for one use, so the first copy that is refreshed logs out " +
			"all others, and you; auth_link_mode = \"shared\" in settings.toml links to it instead"
	}
	return "homes share the ChatGPT login by a link and have no copy of it, because a refresh token is good for one use; auth_link_mode in settings.toml"
}

// LoadSettings reads settings.toml of the user's configuration. Without one the
// defaults hold.
func LoadSettings(configDir string) (*Settings, error) {
	var problems Problems
	var file settingsFile
	path := filepath.Join(configDir, "settings.toml")
	data, err := readSettings(configDir, path)
	if err != nil {
		return nil, err
	}
	t := parse(path, data, &problems)
	(&decoder{problems: &problems, retired: retiredKeys}).decode(t, &file)
	if file.Profile != "" && !core.ValidID(file.Profile) {
		o := t.where("profile")
		problems.add(Problem{File: o.File, Line: o.Line, Key: "profile", Wrong: "is " + quote(file.Profile), Right: "must be the id of a profile"})
	}
	if len(problems.List) > 0 {
		return nil, core.Errorf(core.KindValue, "the settings can't be used:\n%w", &problems)
	}
	return &Settings{
		CodexBin: file.CodexBin, CodexVersions: or(file.CodexVersions, "compatible"), AuthLinkMode: or(file.AuthLinkMode, AuthShared),
		GatewayIdleTimeoutSeconds: or(file.GatewayIdleTimeoutSeconds, 120), Profile: file.Profile,
	}, nil
}

func readSettings(configDir, path string) ([]byte, error) {
	if configDir == "" {
		return nil, nil
	}
	data, err := readFS(os.DirFS(configDir), "settings.toml", path)
	if core.KindOf(err) == core.KindNotFound {
		return nil, nil
	}
	return data, err
}

// SetActive makes a profile the active one: that of new sessions that name
// none. Everything else in settings.toml stays as it is, comments too.
func SetActive(configDir, id string) error {
	if !core.ValidID(id) {
		return core.Errorf(core.KindValue, "%q can't be the id of a profile", id)
	}
	path := filepath.Join(configDir, "settings.toml")
	data, err := readSettings(configDir, path)
	if err != nil {
		return err
	}
	var problems Problems
	t := parse(path, data, &problems)
	if len(problems.List) > 0 {
		return core.Errorf(core.KindValue, "the settings can't be changed:\n%w", &problems)
	}
	changed, ok := setString(data, "profile", id)
	switch {
	case ok:
	case t.at("profile") != nil:
		return core.Errorf(core.KindValue, "the profile of %s:%d is no string", path, t.where("profile").Line).WithRemedy("mend it, or remove the line")
	default:
		changed = append([]byte("profile = "+quote(id)+"\n"), data...) // before the first table
	}
	return publish(configDir, "settings.toml", changed)
}
