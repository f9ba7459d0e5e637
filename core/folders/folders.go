// Package folders knows where the product keeps its things: configuration,
// state and sockets. It says the names, makes the folders private, and refuses
// places where they could not stay so. It reads no environment by itself.
package folders

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
)

// Variables that move a folder to another place.
const (
	ConfigVar  = "MMO_CONFIG_HOME"
	StateVar   = "MMO_STATE_HOME"
	RuntimeVar = "MMO_RUNTIME_DIR"
)

// MaxSocketPath is the longest socket path in bytes. The system's own limit is
// 107 (sun_path less its end); Codex and the plugins' library get no closer.
const MaxSocketPath = 99

const product = "codex-mmo"

// Folders are the three roots, absolute paths.
type Folders struct {
	Config  string // settings, credentials, profiles of the user
	State   string // state.db, sessions, jobs, snapshots, gateways, bin
	Runtime string // sockets; may be emptied by a reboot
}

// Resolve finds the roots from the environment: the product's own variables,
// then those of the XDG base directories, then HOME. The runtime root is below
// the state root when the system gives none. uid is the caller's user id, for
// messages. Nothing is touched on disk.
func Resolve(getenv func(string) string, uid int) (Folders, error) {
	config, err := root(getenv, uid, ConfigVar, "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return Folders{}, err
	}
	state, err := root(getenv, uid, StateVar, "XDG_STATE_HOME", ".local/state")
	if err != nil {
		return Folders{}, err
	}
	runtime := filepath.Join(state, "run")
	if own := getenv(RuntimeVar); own != "" {
		runtime = own
	} else if xdg := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(xdg) {
		runtime = filepath.Join(xdg, product)
	}
	if !filepath.IsAbs(runtime) {
		return Folders{}, notAbsolute(RuntimeVar, runtime)
	}
	return Folders{Config: config, State: state, Runtime: filepath.Clean(runtime)}, nil
}

func root(getenv func(string) string, uid int, own, xdg, below string) (string, error) {
	if path := getenv(own); path != "" {
		if !filepath.IsAbs(path) {
			return "", notAbsolute(own, path)
		}
		return filepath.Clean(path), nil
	}
	// The XDG specification has relative values ignored.
	if base := getenv(xdg); filepath.IsAbs(base) {
		return filepath.Join(base, product), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", core.Errorf(core.KindOS, "HOME of user %d is %q, so there is no place for %s's files", uid, home, product).
			WithRemedy("set HOME, or %s, to an absolute path", own)
	}
	return filepath.Join(home, below, product), nil
}

func notAbsolute(variable, path string) error {
	return core.Errorf(core.KindValue, "%s is %q, which is not an absolute path", variable, path).
		WithRemedy("set %s to an absolute path", variable)
}

// Database returns the path of the store's file.
func (f Folders) Database() string { return filepath.Join(f.State, "state.db") }

// SessionDir returns the folder of a session's evidence.
func (f Folders) SessionDir(session string) string {
	return filepath.Join(f.State, "sessions", session)
}

// JobDir returns the folder of a job's evidence.
func (f Folders) JobDir(job string) string { return filepath.Join(f.State, "jobs", job) }

// GatewayDir returns the folder of a gateway's telemetry and log.
func (f Folders) GatewayDir(hash string) string { return filepath.Join(f.State, "gateways", hash) }

// RuntimeDir returns the folder of a session's sockets. Its name is short,
// because paths of sockets are limited, and says which session only to those
// who know the id.
func (f Folders) RuntimeDir(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(f.Runtime, hex.EncodeToString(sum[:6]))
}

// ControlSocket returns the path of a session's control socket.
func (f Folders) ControlSocket(session string) string {
	return filepath.Join(f.RuntimeDir(session), "control.sock")
}

// CheckSocketPath refuses a path that is too long for a unix socket, naming
// its length and the variable that shortens it.
func CheckSocketPath(path string) error {
	if len(path) <= MaxSocketPath {
		return nil
	}
	return core.Errorf(core.KindOS, "socket path %s has %d bytes, more than %d", path, len(path), MaxSocketPath).
		WithRemedy("set %s to a folder with a shorter path", RuntimeVar)
}
