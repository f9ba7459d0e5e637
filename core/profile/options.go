package profile

import (
	"strconv"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// RouteOptions returns a route's driver options as the gateway takes them: how
// its provider differs, and what its models cost.
func (s *Snapshot) RouteOptions(id string) ([]byte, error) {
	r := s.Routes[id]
	options := map[string]any{}
	if r.Driver == DriverOffline {
		options["script"], options["wire"] = r.Script, r.WireProtocol
	}
	if len(r.Headers) > 0 {
		options["headers"] = r.Headers
	}
	if len(r.EnvHTTPHeaders) > 0 {
		options["secret_headers"] = r.EnvHTTPHeaders
	}
	if r.SessionHeader != "" {
		options["session_header"] = r.SessionHeader
	}
	if len(r.Body) > 0 {
		options["body"] = r.Body
	}
	if r.Retries != nil {
		options["retries"] = *r.Retries
	}
	if len(r.Quirks) > 0 {
		options["quirks"] = r.Quirks
	}
	prices := map[string]map[string]string{}
	for key, m := range s.Models {
		if price := s.Price(key); m.Route == id && price.known() {
			prices[key] = price.options()
		}
	}
	if len(prices) > 0 {
		options["prices"] = prices
	}
	return strictjson.Marshal(options)
}

// Price is what a model costs: what the catalogue says, and nothing where it says
// nothing of a model that is scripted or runs on one's own machine. A nil price,
// or a part of it, is known to nobody.
func (s *Snapshot) Price(model string) *Price {
	m := s.Models[model]
	if mode := s.Routes[m.Route].BillingMode; m.Price == nil && (mode == BillingScripted || mode == BillingLocal) {
		return &Price{Input: new(float64), Output: new(float64)}
	}
	return m.Price
}

// Unpriced reports whether nobody can count what a model costs, so that a budget
// of money can't hold it.
func (s *Snapshot) Unpriced(model string) bool { return !s.Price(model).known() }

// known reports whether what the model costs can be counted.
func (p *Price) known() bool { return p != nil && p.Input != nil && p.Output != nil }

// options is the price as decimal text; a part that is not known is left out.
func (p *Price) options() map[string]string {
	text := map[string]string{}
	for name, v := range map[string]*float64{"input": p.Input, "cached_input": p.CachedInput, "cache_write": p.CacheWrite, "output": p.Output} {
		if v != nil {
			text[name] = strconv.FormatFloat(*v, 'f', -1, 64)
		}
	}
	return text
}
