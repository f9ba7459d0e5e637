package supervisor

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core/folders"
)

// Config is what a supervisor is started with.
type Config struct {
	Folders   folders.Folders
	SessionID string
	Build     string            // version text of this build
	Secrets   map[string]string // credential name -> value, from the keeper's pipe
	Getenv    func(string) string
	Log       *slog.Logger
	Now       func() time.Time // nil: time.Now
	Random    io.Reader        // nil: crypto/rand

	// AmbientDone is how long an ambient session in which nothing is open waits
	// for a client before it completes; 0: 15 minutes.
	AmbientDone time.Duration
}

func (c *Config) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Config) ambientDone() time.Duration { return cmp.Or(c.AmbientDone, ambientDone) }

// codexCache is where verdicts on Codex binaries are kept.
func (c *Config) codexCache() string { return filepath.Join(c.Folders.State, "codex") }

func (c *Config) random() io.Reader {
	if c.Random != nil {
		return c.Random
	}
	return rand.Reader
}

// baseEnvNames is all that a process of ours inherits from the environment of
// the command that started the session. Everything else is set by name.
var baseEnvNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"MMO_CONFIG_HOME", "MMO_STATE_HOME", "MMO_RUNTIME_DIR", "MMO_CODEX_BIN",
	"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
	// Where the gateway sends its spans. Headers with a key are not passed on.
	"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
	"OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED",
}

// BaseEnv returns the allow-listed part of an environment as NAME=value pairs.
func BaseEnv(getenv func(string) string) []string {
	var env []string
	for _, name := range baseEnvNames {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// engineEnvNames is the part of it that reaches an engine.
var engineEnvNames = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}
