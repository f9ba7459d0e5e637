package smoke

import (
	"encoding/json"
	"io"
	"slices"
)

// maxServed bounds the providers and endpoints that are listed.
const maxServed = 64

// Route says who served the requests of a job. What nobody told is absent, not
// zero.
type Route struct {
	ServingProviders  []string `json:"actual_serving_provider_slugs"` // in the order of their first answer; never nil
	ServingEndpoints  []string `json:"actual_serving_endpoint_tags"`  // likewise
	SuccessfulAttempt *uint32  `json:"successful_attempt"`            // of the last answer, from 1
	Retries           *uint32  `json:"retries"`                       // of the last answer
	FallbackIndex     *uint32  `json:"fallback_index"`                // position of the provider that served, from 0
	// Complete says that a serving provider is known.
	Complete bool `json:"complete"`
	// RetryTelemetryComplete says that the number of retries was told.
	RetryTelemetryComplete bool `json:"retry_telemetry_complete"`
}

// RouteTelemetry sums up rows of JSON, one a line: rows of the gateway's
// telemetry, or events that hold "routing" or "openrouter_metadata". In one row
// the gateway's own words win over OpenRouter's.
func RouteTelemetry(rows io.Reader) (*Route, error) {
	r := &Route{ServingProviders: []string{}, ServingEndpoints: []string{}}
	err := eachLine(rows, func(row object) {
		switch {
		case row.object("routing") != nil:
			r.add(fromRouting(row.object("routing")))
		case row.object("openrouter_metadata") != nil:
			r.add(fromOpenRouter(row.object("openrouter_metadata")))
		case row.text("outcome") == "completed" || row.text("outcome") == "incomplete":
			r.add(fromTelemetry(row))
		}
	})
	r.Complete = len(r.ServingProviders) > 0
	r.RetryTelemetryComplete = r.Retries != nil
	return r, err
}

// served is what one row says.
type served struct {
	provider, endpoint          string
	attempt, retries, fallbacks *uint32
}

func fromRouting(o object) served {
	return served{
		provider: o.text("serving_provider_slug"), endpoint: o.text("serving_endpoint_tag"),
		attempt: o.number("attempt"), retries: o.number("retry_count"), fallbacks: o.number("fallback_index"),
	}
}

func fromOpenRouter(o object) served {
	s := served{attempt: o.number("attempt")}
	for _, endpoint := range o.object("endpoints").list("available") {
		if string(endpoint["selected"]) == "true" {
			s.provider, s.endpoint = endpoint.text("provider"), endpoint.text("tag")
		}
	}
	return s
}

// fromTelemetry reads a row of the gateway: protocol buffers' JSON, in which
// numbers of 32 bits stand as numbers. It has no retries: nobody tells the
// gateway.
func fromTelemetry(o object) served {
	return served{
		provider: o.text("serving_provider"), endpoint: o.text("serving_endpoint"),
		attempt: o.number("router_attempt"), fallbacks: o.number("router_fallback_index"),
	}
}

func (r *Route) add(s served) {
	r.ServingProviders = appendNew(r.ServingProviders, s.provider)
	r.ServingEndpoints = appendNew(r.ServingEndpoints, s.endpoint)
	if s.fallbacks == nil && s.attempt != nil && *s.attempt > 0 {
		before := *s.attempt - 1
		s.fallbacks = &before
	}
	r.SuccessfulAttempt, r.Retries, r.FallbackIndex = s.attempt, s.retries, s.fallbacks
}

func appendNew(list []string, name string) []string {
	if name == "" || slices.Contains(list, name) || len(list) == maxServed {
		return list
	}
	return append(list, name)
}

// list returns the objects of a member that is an array.
func (o object) list(name string) []object {
	var raw []object
	if json.Unmarshal(o[name], &raw) != nil {
		return nil
	}
	return raw
}
