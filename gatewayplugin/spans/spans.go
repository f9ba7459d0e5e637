// Package spans exports a span for each attempt that the gateway makes at a
// provider, by the OpenTelemetry conventions for generative AI, to an OTLP/HTTP
// endpoint. It exports what stands in a telemetry row and nothing else: no
// prompts, no answers, no keys.
package spans

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/codex-mmo/codex-mmo/core"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// Options replaces what Open takes from elsewhere. The zero value, and nil, are
// what production uses.
type Options struct {
	// Endpoint is the URL that takes traces. Empty: OTEL_EXPORTER_OTLP_ENDPOINT
	// and its kin in the environment, as the OpenTelemetry SDK reads them.
	Endpoint string
	// Log is told when an export fails and when it works again. nil: nothing.
	Log *slog.Logger
}

// Configured reports whether an environment names an OTLP endpoint.
func Configured(getenv func(string) string) bool {
	return getenv("OTEL_SDK_DISABLED") != "true" &&
		(getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "")
}

// Recorder exports spans in the background. The nil Recorder exports nothing.
// It is safe for concurrent use.
type Recorder struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open makes a recorder, whose owner closes it. Nothing is sent before the
// first span.
func Open(ctx context.Context, opts *Options) (*Recorder, error) {
	if opts == nil {
		opts = &Options{}
	}
	// No proxy of the environment: the gateway is asked to reach one endpoint.
	direct := func(*http.Request) (*url.URL, error) { return nil, nil }
	settings := []otlptracehttp.Option{otlptracehttp.WithProxy(direct)}
	if opts.Endpoint != "" {
		settings = append(settings, otlptracehttp.WithEndpointURL(opts.Endpoint))
	}
	exporter, err := otlptracehttp.New(ctx, settings...)
	if err != nil {
		return nil, core.Errorf(core.KindValue, "open the OTLP endpoint: %w", err).
			WithRemedy("correct OTEL_EXPORTER_OTLP_ENDPOINT and its kin")
	}
	named, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "codex-mmo-gateway")), resource.WithFromEnv())
	if err != nil {
		named = resource.Default() // what the environment says can't be read
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quiet{SpanExporter: exporter, log: opts.Log}),
		sdktrace.WithResource(named),
	)
	return &Recorder{provider: provider, tracer: provider.Tracer("github.com/codex-mmo/codex-mmo/gatewayplugin")}, nil
}

// Close exports what is left until ctx ends, and stops.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return r.provider.Shutdown(ctx)
}

// Record exports an attempt that has just ended and left at sent, to the
// provider at baseURL over a wire.
func (r *Recorder) Record(row *gatewaypb.TelemetryEvent, sent time.Time, wire, baseURL string) {
	if r == nil || row.GetAttempt() == 0 {
		return
	}
	_, span := r.tracer.Start(context.Background(), "chat "+row.GetUpstreamModel(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(sent), trace.WithNewRoot(),
		trace.WithAttributes(attributes(row, wire, baseURL)...))
	if kind := row.GetFailureKind(); kind != "" {
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, row.GetProviderMessage())
	}
	span.End()
}

// providers names the wires as the conventions name those who made them.
var providers = map[string]string{"openai_responses": "openai", "openai_chat": "openai", "anthropic_messages": "anthropic"} // wire -> provider

// attributes are those of the conventions for generative AI, and ours under
// "mmo.".
func attributes(row *gatewaypb.TelemetryEvent, wire, baseURL string) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", providers[wire]),
		attribute.String("gen_ai.request.model", row.GetUpstreamModel()),
		attribute.String("mmo.route", row.GetRoute()),
		attribute.String("mmo.agent_ref", row.GetAgentRef()),
		attribute.String("mmo.request_id", row.GetRequestId()),
		attribute.Int64("mmo.attempt", int64(row.GetAttempt())),
		attribute.String("mmo.outcome", row.GetOutcome()),
	}
	for _, a := range []struct{ key, value string }{
		{"gen_ai.conversation.id", row.GetThreadId()},
		{"gen_ai.response.id", row.GetGenerationId()},
		{"mmo.turn_id", row.GetTurnId()},
		{"mmo.serving_provider", row.GetServingProvider()},
		{"mmo.cost_usd", row.GetCostUsd()},
	} {
		if a.value != "" {
			out = append(out, attribute.String(a.key, a.value))
		}
	}
	for _, a := range []struct {
		key   string
		count *uint64
	}{
		{"gen_ai.usage.input_tokens", row.InputTokens},
		{"gen_ai.usage.output_tokens", row.OutputTokens},
		{"gen_ai.usage.cache_read.input_tokens", row.CachedInputTokens},
		{"gen_ai.usage.cache_creation.input_tokens", row.CacheWriteTokens},
		{"mmo.reasoning_tokens", row.ReasoningTokens},
	} {
		if a.count != nil {
			out = append(out, attribute.Int64(a.key, int64(*a.count)))
		}
	}
	if row.GetHttpStatus() != 0 {
		out = append(out, attribute.Int64("http.response.status_code", int64(row.GetHttpStatus())))
	}
	if row.GetFirstByteUs() != 0 {
		out = append(out, attribute.Float64("gen_ai.response.time_to_first_chunk", float64(row.GetFirstByteUs())/1e6))
	}
	return append(out, server(baseURL)...)
}

// server names the provider's host and port.
func server(baseURL string) []attribute.KeyValue {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	out := []attribute.KeyValue{attribute.String("server.address", u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		out = append(out, attribute.Int("server.port", port))
	}
	return out
}

// quiet keeps failed exports from the SDK, which would print each of them.
type quiet struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	failed atomic.Bool
}

// ExportSpans exports, and logs only when that begins or ceases to fail.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if was := q.failed.Swap(err != nil); q.log != nil && was != (err != nil) {
		q.log.Warn("the export of spans to OpenTelemetry has changed", "failing", err != nil, "err", err)
	}
	return nil
}
