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
		if m.Route == id && m.Price.known() {
			prices[key] = m.Price.options()
		}
	}
	if len(prices) > 0 {
		options["prices"] = prices
	}
	return strictjson.Marshal(options)
}

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
