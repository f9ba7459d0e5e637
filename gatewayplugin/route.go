package gatewayplugin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// The drivers, as catalogues name them.
const (
	driverResponses = "openai_responses"
	driverChat      = "openai_chat"
	driverAnthropic = "anthropic_messages"
	driverOffline   = "offline" // the scripted model
)

// The wires that providers speak. Each has a driver of its name; the offline
// driver speaks the one that its options name.
const (
	wireResponses = driverResponses
	wireChat      = driverChat
	wireAnthropic = driverAnthropic
)

// routeDrain is how long requests under way on a replaced offline route may
// go on.
const routeDrain = 10 * time.Minute

// route is one way to a provider. It is immutable once made.
type route struct {
	id      string
	driver  string
	wire    string
	baseURL string // with the API's version: ".../v1"
	secret  string // of secret_name; empty: none
	// secretHeaders are those of the options with their values.
	secretHeaders map[string]string // header -> value
	secrets       secretValues      // all of them, to be kept out of what is shown
	used          map[string]string // name -> value of the secrets above
	options       routeOptions
	models        []*gatewaypb.RouteModel
	source        *gatewaypb.Route // what it was made of, to see whether it changed

	state   string // of gatewaypb.RouteStatus
	message string // why it is not ready

	offline *modeltest.Server // of driver offline
}

// routeOptions are a route's options_json.
//
//	{"headers": {"X-Title": "codex-mmo"}, "quirks": {"effort": {"xhigh": "high"}}}
//	{"secret_headers": {"X-Org-Key": "ORG_KEY"}, "retries": 0, "body": {"provider": {"only": ["x"]}}}
//	{"script": "model offline-lead\n…", "wire": "anthropic_messages"}
type routeOptions struct {
	// Headers are sent upstream; none that authorises.
	Headers map[string]string `json:"headers"`
	// SecretHeaders are headers whose values are secrets of the session.
	SecretHeaders map[string]string `json:"secret_headers"` // header -> name of the secret
	// SessionHeader is a header that names the conversation, for providers that
	// demand one; empty: none.
	SessionHeader string           `json:"session_header"`
	Quirks        translate.Quirks `json:"quirks"`
	// Body are members that the provider's request gets unless it has them, as
	// OpenRouter's "provider", which is the route's policy.
	Body map[string]json.RawMessage `json:"body"`
	// Retries is how often a request is sent again before Codex has seen a part
	// of the answer, 0 to 10. nil: 2.
	Retries *int `json:"retries"`
	// Prices are what the provider asks, by the key of the model; that of "*"
	// goes for all others. They count where the provider names no cost.
	Prices map[string]*prices `json:"prices"` // model key -> prices
	// Script is the offline driver's script.
	Script string `json:"script"`
	// Wire is what the offline driver speaks; empty: openai_chat.
	Wire string `json:"wire"`
}

// newRoute makes a route. What is wrong with it becomes its state: the
// tenant's other routes work all the same.
func newRoute(ctx context.Context, src *gatewaypb.Route, secrets map[string]string, random io.Reader) *route {
	r := &route{
		id: src.GetId(), driver: src.GetDriver(), wire: src.GetDriver(), baseURL: strings.TrimRight(src.GetBaseUrl(), "/"),
		models: src.GetModels(), source: src, state: "ready",
	}
	if err := r.init(ctx, src, secrets, random); err != nil {
		r.state, r.message = "unavailable", err.Error()
	}
	return r
}

func (r *route) init(ctx context.Context, src *gatewaypb.Route, secrets map[string]string, random io.Reader) error {
	if raw := src.GetOptionsJson(); len(raw) > 0 {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r.options); err != nil {
			return core.Errorf(core.KindValue, "route %s: options can't be read: %w", r.id, err)
		}
	}
	if err := r.takeSecrets(src.GetSecretName(), secrets); err != nil {
		return err
	}
	if r.driver != driverOffline && r.options.Wire != "" {
		return core.Errorf(core.KindValue, "route %s: the wire of driver %s can't be chosen", r.id, r.driver).
			WithRemedy("leave out wire, or name another driver")
	}
	switch r.driver {
	case driverOffline:
		return r.startOffline(ctx, random)
	case driverAnthropic:
		// Its makers write base URLs without the version.
		if !strings.HasSuffix(r.baseURL, "/v1") {
			r.baseURL += "/v1"
		}
		return r.check()
	case driverChat, driverResponses:
		return r.check()
	}
	return core.Errorf(core.KindValue, "route %s: unknown driver %q", r.id, r.driver).
		WithRemedy("use one of %s", strings.Join(Drivers, ", "))
}

// startOffline serves the scripted model on a port and with a bearer of its
// own, so that an offline session takes the same way as any other.
func (r *route) startOffline(ctx context.Context, random io.Reader) error {
	switch r.wire = r.options.Wire; r.wire {
	case "":
		r.wire = wireChat
	case wireResponses, wireChat, wireAnthropic:
	default:
		return core.Errorf(core.KindValue, "route %s: there is no wire %q", r.id, r.wire).
			WithRemedy("use one of %s, %s, %s", wireResponses, wireChat, wireAnthropic)
	}
	script, err := modeltest.Parse(r.options.Script)
	if err != nil {
		return core.Errorf(core.KindValue, "route %s: %w", r.id, err)
	}
	var key [32]byte
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return core.Errorf(core.KindOS, "route %s: no random bytes: %w", r.id, err)
	}
	r.secret = hex.EncodeToString(key[:])
	if r.offline, err = modeltest.NewServer(ctx, script, r.secret); err != nil {
		return err
	}
	r.baseURL = r.offline.URL
	return nil
}

// prices returns what a model costs, or nil when that is not known.
func (r *route) prices(model string) *prices {
	if p := r.options.Prices[model]; p != nil {
		return p
	}
	return r.options.Prices["*"]
}

// model returns the entry of a model key, or nil.
func (r *route) model(key string) *gatewaypb.RouteModel {
	for _, m := range r.models {
		if m.GetKey() == key {
			return m
		}
	}
	return nil
}

// upstreamModel returns the provider's id of a model that the route has.
func (r *route) upstreamModel(key string) string {
	if m := r.model(key); m.GetUpstreamId() != "" {
		return m.GetUpstreamId()
	}
	return key
}

func (r *route) scripted() bool { return r.driver == driverOffline }

func (r *route) status() *gatewaypb.RouteStatus {
	return &gatewaypb.RouteStatus{Route: r.id, State: r.state, Message: r.message}
}

// same reports whether the route can go on for a new definition.
func (r *route) same(src *gatewaypb.Route, secrets map[string]string) bool {
	return r.state == "ready" && proto.Equal(r.source, src) &&
		!slices.ContainsFunc(slices.Collect(maps.Keys(r.used)), func(name string) bool { return r.used[name] != secrets[name] })
}

func (r *route) close() {
	if r.offline != nil {
		r.offline.Close()
	}
}

// retire closes a route that was replaced, once its requests have ended.
func (r *route) retire(ctx context.Context) {
	if r.offline == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, routeDrain)
	defer cancel()
	r.offline.Shutdown(ctx)
}
