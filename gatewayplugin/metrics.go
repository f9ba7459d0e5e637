package gatewayplugin

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// metrics counts what passed, for Prometheus. Routes and models are labels;
// sessions and agents are not, since any local process may read them.
type metrics struct {
	mu     sync.Mutex
	values map[string]float64 // name with labels -> sum
}

// metric describes one name of the output.
type metric struct{ name, kind, help string }

// metricHelp names every metric, in the order of the output.
var metricHelp = []metric{
	{"mmo_gateway_requests_total", "counter", "Upstream attempts by route, model, outcome and failure kind."},
	{"mmo_gateway_retries_total", "counter", "Attempts that repeated a failed one, by route."},
	{"mmo_gateway_refused_total", "counter", "Requests that never left, by route and failure kind."},
	{"mmo_gateway_tokens_total", "counter", "Tokens that providers reported, by route, model and kind."},
	{"mmo_gateway_cost_usd_total", "counter", "Cost in US dollars, by route, model and who told it."},
	{"mmo_gateway_dropped_total", "counter", "Parts of requests that a route's wire can't carry, by route and part."},
	{"mmo_gateway_first_byte_seconds", "histogram", "Time from Codex's request to the provider's first event, by route."},
	{"mmo_gateway_in_flight", "gauge", "Requests under way."},
}

// firstByteBuckets are the histogram's bounds, in seconds.
var firstByteBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// maxSeries bounds the counters: some labels come from Codex and providers, and
// a hostile one must not fill the memory.
const maxSeries = 4096

func newMetrics() *metrics { return &metrics{values: map[string]float64{}} }

func (m *metrics) addLocked(n float64, name string, labels ...string) {
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%s=%q", labels[i], bounded(labels[i+1]))
	}
	b.WriteByte('}')
	key := b.String()
	if _, known := m.values[key]; !known && len(m.values) >= maxSeries {
		return
	}
	m.values[key] += n
}

// record counts an attempt, or a request that never left.
func (m *metrics) record(row *gatewaypb.TelemetryEvent) {
	route, model := row.GetRoute(), row.GetModel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if row.GetAttempt() == 0 {
		m.addLocked(1, "mmo_gateway_refused_total", "route", route, "failure", row.GetFailureKind())
		return
	}
	m.addLocked(1, "mmo_gateway_requests_total", "route", route, "model", model, "outcome", row.GetOutcome(), "failure", row.GetFailureKind())
	if row.GetAttempt() > 1 {
		m.addLocked(1, "mmo_gateway_retries_total", "route", route)
	}
	for _, c := range []struct {
		kind  string
		count *uint64
	}{
		{"input", row.InputTokens},
		{"cached_input", row.CachedInputTokens},
		{"cache_write", row.CacheWriteTokens},
		{"output", row.OutputTokens},
		{"reasoning", row.ReasoningTokens},
	} {
		if c.count != nil {
			m.addLocked(float64(*c.count), "mmo_gateway_tokens_total", "route", route, "model", model, "kind", c.kind)
		}
	}
	if cost, err := strconv.ParseFloat(row.GetCostUsd(), 64); err == nil {
		m.addLocked(cost, "mmo_gateway_cost_usd_total", "route", route, "model", model, "source", row.GetCostSource())
	}
	if row.GetFirstByteUs() != 0 {
		m.observeLocked("mmo_gateway_first_byte_seconds", float64(row.GetFirstByteUs())/1e6, route)
	}
}

// observeLocked adds a value to a route's histogram.
func (m *metrics) observeLocked(name string, seconds float64, route string) {
	for _, bound := range firstByteBuckets {
		in := 0.0
		if seconds <= bound {
			in = 1
		}
		m.addLocked(in, name+"_bucket", "route", route, "le", strconv.FormatFloat(bound, 'g', -1, 64))
	}
	m.addLocked(1, name+"_bucket", "route", route, "le", "+Inf")
	m.addLocked(seconds, name+"_sum", "route", route)
	m.addLocked(1, name+"_count", "route", route)
}

// drop counts what a request lost in translation.
func (m *metrics) drop(route string, parts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range parts {
		m.addLocked(1, "mmo_gateway_dropped_total", "route", route, "part", part)
	}
}

// write prints all metrics in the Prometheus text format.
func (m *metrics) write(w io.Writer, inFlight int) {
	m.mu.Lock()
	values := maps.Clone(m.values)
	m.mu.Unlock()
	keys := slices.Sorted(maps.Keys(values))
	for _, h := range metricHelp {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", h.name, h.help, h.name, h.kind)
		if h.kind == "gauge" {
			fmt.Fprintf(w, "%s %d\n", h.name, inFlight)
		}
		for _, key := range keys {
			if h.owns(key) {
				fmt.Fprintf(w, "%s %s\n", key, strconv.FormatFloat(values[key], 'f', -1, 64))
			}
		}
	}
}

// owns reports whether a series is the metric's.
func (h metric) owns(key string) bool {
	name, _, _ := strings.Cut(key, "{")
	if h.kind == "histogram" {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
	}
	return name == h.name
}
