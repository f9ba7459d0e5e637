package mcpserver

import (
	"io"
	"log/slog"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// The environment that a generated home gives the server.
const (
	EnvSession = "MMO_ROOT_SESSION_ID"
	EnvRun     = "MMO_RUN_ID"
	EnvAgent   = "MMO_CALLER_AGENT"
	EnvToken   = "MMO_CALLER_TOKEN"
	EnvJob     = "MMO_CALLER_JOB_ID" // workers only
	EnvSocket  = "MMO_CONTROL_SOCKET"
)

// Config is what a server needs. In, Out, and one of Client, Socket and Lead must
// be set; the rest has defaults.
type Config struct {
	SessionID string
	RunID     string
	Agent     string // agent id that the caller must prove to be; empty: not compared
	JobID     string // of a worker
	Token     access.Token

	Socket string          // path of the control socket
	Client *control.Client // default: one for Socket and Token that retries for 5 s

	// Lead makes the client itself the root of a team; nil where an agent of a
	// session starts the server. It then finds Client.
	Lead Lead

	Name    string // server name in initialize; default "mmo_mesh"
	Version string // build, named to the client and to the supervisor; default "unknown"
	In      io.Reader
	Out     io.Writer // nothing else may write to it
	Log     *slog.Logger

	// ParentGone is closed when the process that started us has ended: an
	// engine that is killed may leave our input open in another process.
	ParentGone <-chan struct{}

	// Refusal, when set, is the answer to initialize. The server then does
	// nothing else, but lives on until its input ends.
	Refusal error
}

// FromEnv reads the environment of a generated home. On an error the Config is
// usable all the same: its Refusal is that error, so that the client learns it
// from the answer to initialize.
func FromEnv(getenv func(string) string) (Config, error) {
	cfg := Config{
		SessionID: getenv(EnvSession),
		RunID:     getenv(EnvRun),
		Agent:     getenv(EnvAgent),
		JobID:     getenv(EnvJob),
		Token:     access.Token(getenv(EnvToken)),
		Socket:    getenv(EnvSocket),
	}
	var missing []string
	for _, name := range []string{EnvSession, EnvRun, EnvAgent, EnvToken, EnvSocket} {
		if getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		err := core.Errorf(core.KindValue, "the environment lacks %s", strings.Join(missing, ", ")).
			WithRemedy("to lead a team from your own MCP client, start it with --profile PROFILE; an agent's generated Codex home sets the environment")
		cfg.Refusal = err
		return cfg, err
	}
	return cfg, nil
}

func (c *Config) setDefaults() {
	if c.Name == "" {
		c.Name = "mmo_mesh"
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Client == nil && c.Lead == nil {
		c.Client = control.Dial(c.Socket, &control.ClientOptions{
			Build: c.Version, Token: c.Token, Retry: Patience,
		})
	}
}
