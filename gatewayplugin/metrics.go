package gatewayplugin

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// metrics counts what passed, for Prometheus. Routes and models are labels;
// sessions and agents are not, since any local process may read them.
type metrics struct {
	mu       sync.Mutex
	counters map[string]uint64 // name with labels -> count
}

// metricHelp names every metric, in the order of the output.
var metricHelp = []struct{ name, kind, help string }{
	{"mmo_gateway_requests_total", "counter", "Upstream attempts by route, model, outcome and failure kind."},
	{"mmo_gateway_tokens_total", "counter", "Tokens that providers reported, by route, model and kind."},
	{"mmo_gateway_dropped_total", "counter", "Parts of requests that a route's wire can't carry, by route and part."},
	{"mmo_gateway_in_flight", "gauge", "Requests under way."},
}

// maxSeries bounds the counters: names come from Codex, and a hostile one
// must not fill the memory.
const maxSeries = 4096

func newMetrics() *metrics { return &metrics{counters: map[string]uint64{}} }

func (m *metrics) addLocked(n uint64, name string, labels ...string) {
	var b strings.Builder
	b.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%s=%q", labels[i], bounded(labels[i+1]))
	}
	b.WriteByte('}')
	key := b.String()
	if _, known := m.counters[key]; !known && len(m.counters) >= maxSeries {
		return
	}
	m.counters[key] += n
}

// record counts an attempt.
func (m *metrics) record(row *gatewaypb.TelemetryEvent) {
	route, model := row.GetRoute(), row.GetModel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(1, "mmo_gateway_requests_total", "route", route, "model", model, "outcome", row.GetOutcome(), "failure", row.GetFailureKind())
	for _, c := range []struct {
		kind  string
		count *uint64
	}{
		{"input", row.InputTokens},
		{"cached_input", row.CachedInputTokens},
		{"output", row.OutputTokens},
		{"reasoning", row.ReasoningTokens},
	} {
		if c.count != nil {
			m.addLocked(*c.count, "mmo_gateway_tokens_total", "route", route, "model", model, "kind", c.kind)
		}
	}
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
	counters := maps.Clone(m.counters)
	m.mu.Unlock()
	keys := slices.Sorted(maps.Keys(counters))
	for _, h := range metricHelp {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", h.name, h.help, h.name, h.kind)
		if h.kind == "gauge" {
			fmt.Fprintf(w, "%s %d\n", h.name, inFlight)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, h.name+"{") {
				fmt.Fprintf(w, "%s %d\n", key, counters[key])
			}
		}
	}
}
