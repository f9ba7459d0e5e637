package appserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Bounds of the pause before a socket that exists and refuses is tried again:
// between bind and listen, or left behind by a dead server.
const (
	refusedPause    = 5 * time.Millisecond
	refusedPauseMax = 200 * time.Millisecond
)

// Server is what initialize tells of the app-server.
type Server struct {
	UserAgent string          `json:"userAgent"`
	CodexHome string          `json:"codexHome"`
	Raw       json.RawMessage `json:"-"` // the whole answer
}

// Version is the token after the slash in the user agent, e.g. "0.149.0".
func (s Server) Version() string {
	_, rest, _ := strings.Cut(s.UserAgent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// Connect waits for the app-server at path to be ready, for at most ctx, and
// initialises the connection as the client of that name and version. A socket
// file that is missing, stale or not yet listened on is no error: ready means
// that initialize was answered.
func Connect(ctx context.Context, path, name, version string, opts *Options) (*Client, Server, error) {
	watch, err := watchFolder(filepath.Dir(path))
	if err != nil {
		return nil, Server{}, err
	}
	defer watch.close()
	pause := refusedPause
	for {
		c, server, err := connectOnce(ctx, path, name, version, opts)
		if err == nil {
			return c, server, nil
		}
		if ctx.Err() != nil {
			return nil, Server{}, fmt.Errorf("app-server at %s is not ready: %w", path, context.Cause(ctx))
		}
		var wait <-chan time.Time
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case passing(err):
			wait = time.After(pause)
			pause = min(2*pause, refusedPauseMax)
		default:
			return nil, Server{}, err
		}
		select {
		case <-watch.changed:
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// passing tells whether err is what a server that starts, ends or was just
// replaced looks like.
func passing(err error) bool {
	for _, cause := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
		io.EOF, io.ErrUnexpectedEOF, ErrUnanswered, ErrNotSent,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

func connectOnce(ctx context.Context, path, name, version string, opts *Options) (*Client, Server, error) {
	c, err := Dial(ctx, path, opts)
	if err != nil {
		return nil, Server{}, err
	}
	server, err := c.initialize(ctx, name, version)
	if err != nil {
		c.Close()
		return nil, Server{}, err
	}
	return c, server, nil
}

// initialize opens the conversation. The experimental API is asked for:
// historyMode, excludeTurns and thread/turns/list need it (0.149.0).
func (c *Client) initialize(ctx context.Context, name, version string) (Server, error) {
	raw, err := c.Call(ctx, "initialize", map[string]any{
		"clientInfo":   map[string]any{"name": name, "version": version},
		"capabilities": map[string]any{"experimentalApi": true},
	})
	if err != nil {
		return Server{}, err
	}
	server := Server{Raw: raw}
	if err := json.Unmarshal(raw, &server); err != nil {
		return Server{}, &ProtocolError{Rule: "the answer to initialize is not its object", Err: err}
	}
	return server, c.Notify("initialized", nil)
}
