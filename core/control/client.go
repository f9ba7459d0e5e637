package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// ErrUnreachable is wrapped by the errors of calls that got no answer: no
// supervisor was at the socket, or it went away and none came back, or it did
// not answer before the context ended. Their kind is UnavailableError when the
// call had no effect for certain, and ControlDeliveryUnknown otherwise.
var ErrUnreachable = errors.New("no supervisor answers")

// maxAnswer bounds an answer in bytes; a page or a list never comes near it.
const maxAnswer = 64 << 20

// ClientOptions changes how a Client works. A nil *ClientOptions means the
// defaults.
type ClientOptions struct {
	Build string       // named to the server; default "unknown"
	Token access.Token // empty: the caller is the operator
	// Retry is how long a call waits for a supervisor that is not there, or
	// that went away before it answered; 0 means that it fails at once. The
	// client waits for the socket to appear; it does not poll.
	Retry time.Duration
}

// Client calls the control API at one socket. It may be used from many
// goroutines, and makes a connection for each call, so that nothing of it is
// stale after a supervisor was replaced.
type Client struct {
	path  string
	build string
	token access.Token
	retry time.Duration
	http  *http.Client
}

// Dial makes a client of the socket at path. It does not connect; each call
// does.
func Dial(path string, opts *ClientOptions) *Client {
	if opts == nil {
		opts = &ClientOptions{}
	}
	c := &Client{path: path, build: opts.Build, token: opts.Token, retry: opts.Retry}
	if c.build == "" {
		c.build = "unknown"
	}
	c.http = &http.Client{Transport: &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
			if err != nil {
				return nil, notDelivered{err}
			}
			return conn, nil
		},
	}}
	return c
}

// notDelivered marks an error that came before a byte was sent.
type notDelivered struct{ error }

func (e notDelivered) Unwrap() error { return e.error }

// outcome is what became of one attempt.
type outcome int

const (
	answered outcome = iota // also: refused with an error of the API
	notSent                 // no connection
	unknown                 // sent, and the connection ended without an answer
	drained                 // sent; the server ended it without effect because it goes down
)

// attempt sends one request and returns the server's answer to it.
func (c *Client) attempt(ctx context.Context, verb string, meta Meta, body []byte) (*http.Response, outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://control"+pathPrefix+verb, bytes.NewReader(body))
	if err != nil {
		return nil, answered, core.Errorf(core.KindRuntime, "call %s: %w", verb, err)
	}
	req.GetBody = nil // the transport must not repeat a request by itself
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(HeaderAPI, strconv.Itoa(APIVersion))
	req.Header.Set(HeaderBuild, c.build)
	if c.token != "" {
		req.Header.Set(HeaderToken, "Bearer "+c.token.Reveal())
	}
	for name, value := range map[string]string{
		HeaderThread: meta.ThreadID, HeaderTurn: meta.TurnID,
		HeaderCall: meta.CallID, HeaderRequestKey: meta.RequestKey,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := c.http.Do(req)
	var before notDelivered
	switch {
	case errors.As(err, &before):
		return nil, notSent, before.error
	case err != nil:
		return nil, unknown, errors.Unwrap(err) // without the made-up URL
	}
	if resp.StatusCode == http.StatusOK {
		return resp, answered, nil
	}
	defer resp.Body.Close()
	err = readRefusal(resp)
	var refusal *core.Error
	switch {
	case !errors.As(err, &refusal):
		return nil, unknown, err
	case refusal.Kind == core.KindUnavailable && refusal.Reason == ReasonDraining:
		return nil, drained, err
	}
	return nil, answered, err
}

// readRefusal reads the error of an answer that is not 200. Another error than
// *core.Error means that the answer broke off.
func readRefusal(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var body ErrorBody
	if err := strictjson.Unmarshal(data, &body, &strictjson.Options{AllowUnknown: true}); err != nil || body.Error.Message == "" {
		return core.Errorf(core.KindRuntime, "the control socket answered with HTTP status %d that is not of the control API", resp.StatusCode)
	}
	return errorOf(body.Error)
}

// repeatable says which requests may be sent again after an unknown outcome:
// those that only look or mark as read, and those whose key lets the supervisor
// tell a repeat. A stop has no memory of its own that would.
func repeatable(verb string, meta Meta) bool {
	return !changes(verb) || verb != VerbStop && verb != VerbControl && meta.key() != ""
}

// call sends request until it is answered, the context ends, or no supervisor
// has come back within the retry time. encode makes the body of each attempt.
func call[Resp any](ctx context.Context, c *Client, verb string, meta Meta, encode func() (any, error)) (*Resp, error) {
	if err := c.check(meta); err != nil {
		return nil, err
	}
	patience := newPatience(c.path, c.retry)
	defer patience.close()
	lost := false // an attempt that may have had an effect got no answer
	for {
		request, err := encode()
		if err != nil {
			return nil, err
		}
		body, err := strictjson.Marshal(request)
		if err != nil {
			return nil, core.Errorf(core.KindValue, "write the request %s: %w", verb, err)
		}
		if len(body) > MaxBody {
			return nil, bodyTooLarge()
		}
		resp, became, err := c.attempt(ctx, verb, meta, body)
		if err == nil {
			var answer *Resp
			if answer, err = readAnswer[Resp](resp); err == nil {
				return answer, nil
			}
			became = unknown
		}
		if became == answered {
			return nil, err
		}
		lost = lost || became == unknown && changes(verb)
		again := became != unknown || repeatable(verb, meta)
		again = again && (became != notSent || absent(err))
		if !again || !patience.wait(ctx, became) {
			return nil, c.noAnswer(ctx, verb, lost, err)
		}
	}
}

// changes reports whether a verb has an effect that a repeat would double.
func changes(verb string) bool {
	switch verb {
	case VerbSpawn, VerbCancel, VerbAccept, VerbReject, VerbIntegrate, VerbStop, VerbControl, VerbSessionContinue:
		return true
	}
	return false
}

// absent reports whether a dial failed because no supervisor is there yet.
func absent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ENOTDIR)
}

func readAnswer[Resp any](resp *http.Response) (*Resp, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	answer := new(Resp)
	// A newer server may say more than we know.
	if err := strictjson.Unmarshal(data, answer, &strictjson.Options{AllowUnknown: true}); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}

// noAnswer is the error of a call that got none. With lost it may have had its
// effect, and the caller must look before it repeats it.
func (c *Client) noAnswer(ctx context.Context, verb string, lost bool, cause error) error {
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	e := &core.Error{
		Kind: core.KindUnavailable, Err: unreachable{cause},
		Message: fmt.Sprintf("%s: no supervisor answers at %s: %v", verb, c.path, cause),
	}
	if lost {
		e.Kind = core.KindDeliveryUnknown
		e.Message = fmt.Sprintf("%s was sent to the supervisor at %s and not answered, so it may or may not have happened: %v", verb, c.path, cause)
		e.Remedy = "look at the state before you repeat it"
	}
	return e
}

// unreachable makes a cause findable without printing it twice.
type unreachable struct{ cause error }

func (unreachable) Error() string     { return "" }
func (u unreachable) Unwrap() []error { return []error{ErrUnreachable, u.cause} }

// check refuses what could not stand in a header.
func (c *Client) check(m Meta) error {
	for name, value := range map[string]string{
		"thread id": m.ThreadID, "turn id": m.TurnID, "call id": m.CallID, "request key": m.RequestKey,
		"capability": c.token.Reveal(),
	} {
		if !ValidMeta(value) {
			return core.Errorf(core.KindValue, "the %s is not made of at most %d printable ASCII characters", name, MaxMeta)
		}
	}
	return nil
}

// ValidMeta reports whether an id may stand in a Meta; the empty one may.
func ValidMeta(id string) bool {
	if len(id) > MaxMeta {
		return false
	}
	for _, b := range []byte(id) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return true
}
