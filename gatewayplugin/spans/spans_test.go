package spans_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/spans"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector takes spans as an OTLP endpoint does.
func collector(t *testing.T) (endpoint string, got func() []*tracepb.Span) {
	t.Helper()
	requests := make(chan *collectorpb.ExportTraceServiceRequest, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := &collectorpb.ExportTraceServiceRequest{}
		if err != nil || proto.Unmarshal(body, request) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		requests <- request
	}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL + "/v1/traces", func() []*tracepb.Span {
		var all []*tracepb.Span
		for len(requests) > 0 {
			for _, r := range (<-requests).GetResourceSpans() {
				for _, s := range r.GetScopeSpans() {
					all = append(all, s.GetSpans()...)
				}
			}
		}
		return all
	}
}

func ptr(n uint64) *uint64 { return &n }

// TestRecord: an attempt becomes a client span by the conventions, from its
// leaving to its end, with counts only where the provider sent some. What never
// left is no span.
func TestRecord(t *testing.T) {
	endpoint, got := collector(t)
	r, err := spans.Open(t.Context(), &spans.Options{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	sent := time.Now().Add(-time.Second)
	r.Record(&gatewaypb.TelemetryEvent{
		Route: "or", Model: "m", UpstreamModel: "vendor/m", AgentRef: "ar_1", ThreadId: "th", TurnId: "tu", RequestId: "q", Attempt: 1,
		HttpStatus: 200, Outcome: "completed", ServingProvider: "Some Host", CostUsd: "0.25", FirstByteUs: 1500,
		InputTokens: ptr(9), CachedInputTokens: ptr(4), OutputTokens: ptr(3),
	}, sent, "openai_chat", "https://provider.example:8443/v1")
	r.Record(&gatewaypb.TelemetryEvent{UpstreamModel: "x", Attempt: 2, Outcome: "failed", FailureKind: "overloaded", ProviderMessage: "busy"}, sent, "anthropic_messages", "https://h/v1")
	r.Record(&gatewaypb.TelemetryEvent{UpstreamModel: "never left", Outcome: "failed", FailureKind: "budget"}, time.Time{}, "openai_chat", "https://h/v1")
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := got()
	if len(all) != 2 {
		t.Fatalf("%d spans, want 2: %v", len(all), all)
	}
	span := all[0]
	if span.GetName() != "chat vendor/m" || span.GetKind() != tracepb.Span_SPAN_KIND_CLIENT || span.GetStartTimeUnixNano() != uint64(sent.UnixNano()) || span.GetEndTimeUnixNano() <= span.GetStartTimeUnixNano() {
		t.Errorf("span %v", span)
	}
	want := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "vendor/m", "gen_ai.conversation.id": "th",
		"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(3), "gen_ai.usage.cache_read.input_tokens": int64(4),
		"gen_ai.response.time_to_first_chunk": 0.0015, "http.response.status_code": int64(200),
		"server.address": "provider.example", "server.port": int64(8443),
		"mmo.route": "or", "mmo.agent_ref": "ar_1", "mmo.request_id": "q", "mmo.turn_id": "tu", "mmo.attempt": int64(1), "mmo.outcome": "completed",
		"mmo.serving_provider": "Some Host", "mmo.cost_usd": "0.25",
	}
	if diff := cmp.Diff(want, values(span)); diff != "" {
		t.Error(diff)
	}
	failed := values(all[1])
	if all[1].GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || all[1].GetStatus().GetMessage() != "busy" || failed["error.type"] != "overloaded" || failed["gen_ai.provider.name"] != "anthropic" || failed["gen_ai.usage.input_tokens"] != nil {
		t.Errorf("span %v", all[1])
	}
}

// values reads a span's attributes.
func values(span *tracepb.Span) map[string]any {
	out := map[string]any{}
	for _, a := range span.GetAttributes() {
		switch {
		case a.GetValue().GetStringValue() != "":
			out[a.GetKey()] = a.GetValue().GetStringValue()
		case a.GetValue().GetDoubleValue() != 0:
			out[a.GetKey()] = a.GetValue().GetDoubleValue()
		default:
			out[a.GetKey()] = a.GetValue().GetIntValue()
		}
	}
	return out
}

// TestConfigured: spans are exported when the environment names an endpoint,
// and never when it switches them off.
func TestConfigured(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/v1/traces"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "true"}, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
	} {
		if got := spans.Configured(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("Configured(%v) = %v, want %v", tt.env, got, tt.want)
		}
	}
}

// TestNobodyListens: an endpoint that is down holds nothing up.
func TestNobodyListens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	r, err := spans.Open(t.Context(), &spans.Options{Endpoint: server.URL + "/v1/traces"})
	if err != nil {
		t.Fatal(err)
	}
	r.Record(&gatewaypb.TelemetryEvent{UpstreamModel: "m", Attempt: 1}, time.Now(), "openai_chat", "https://h")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = r.Close(ctx) // that it returns is what counts
	var none *spans.Recorder
	none.Record(&gatewaypb.TelemetryEvent{Attempt: 1}, time.Now(), "", "")
	if err := none.Close(ctx); err != nil {
		t.Error(err)
	}
}
