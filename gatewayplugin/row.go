package gatewayplugin

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// maxPolicy bounds a policy on record, in bytes.
const maxPolicy = 2000

// row makes the telemetry of the attempt under way, or of a request that never
// left.
func (x *exchange) row(f *failure) *gatewaypb.TelemetryEvent {
	thread, turn := joinIDs(x.client.Header, x.request.ClientMetadata)
	word := x.route.secrets.word
	row := &gatewaypb.TelemetryEvent{
		RecordedAtNs: x.g.opts.Now().UnixNano(),
		AgentRef:     x.token.agentRef, ThreadId: thread, TurnId: turn,
		Route: x.route.id, Model: x.request.Model, UpstreamModel: x.route.upstreamModel(x.request.Model),
		RequestId: x.id, Attempt: x.attemptNo, HttpStatus: uint32(x.status),
		Outcome: "completed", TotalUs: uint64(time.Since(x.began).Microseconds()),
		Scripted: x.route.scripted(), BudgetIds: x.token.budgets, Dropped: x.dropped,
		ServingProvider: word(x.result.Provider), ServingEndpoint: word(x.result.Endpoint), GenerationId: word(x.result.Generation),
	}
	if !x.first.IsZero() {
		row.FirstByteUs = uint64(x.first.Sub(x.began).Microseconds())
	}
	if x.result.Finish == "length" && f == nil {
		row.Outcome = "incomplete"
	}
	if f != nil {
		row.Outcome, row.FailureKind = f.outcomeWord(), f.kind
		row.ProviderMessage, row.ResetsAt = f.message, f.resetsAt
	}
	if f != nil && f.kind == "budget" {
		row.Attempt = 0 // this one never left
	}
	x.account(row)
	x.policy(row)
	return row
}

// policy records which providers the route asks for, and what a provider that
// routes on said of its way.
func (x *exchange) policy(row *gatewaypb.TelemetryEvent) {
	if m := x.result.Router; m != nil && m.Attempt != nil && *m.Attempt > 0 {
		before := *m.Attempt - 1
		row.RouterAttempt, row.RouterFallbackIndex = m.Attempt, &before
	}
	raw, ok := x.route.options.Body["provider"]
	if !ok || len(raw) > maxPolicy {
		return
	}
	row.RequestedPolicy = string(raw)
	var policy struct {
		Only []string `json:"only"`
	}
	if json.Unmarshal(raw, &policy) != nil || len(policy.Only) == 0 || row.ServingProvider == "" {
		return
	}
	row.PolicyViolated = !slices.ContainsFunc(policy.Only, func(allowed string) bool {
		return slug(allowed) == slug(row.ServingProvider)
	})
}

// slug writes a provider's name as its id is written: "Some Host" and
// "some-host/fp8" are one.
func slug(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), " ", "-")
}
