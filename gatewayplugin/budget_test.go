package gatewayplugin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// limit sets a budget of session s1. tokens may be nil, usd empty.
func (r *rig) limit(id string, tokens *uint64, usd string) {
	r.t.Helper()
	_, err := r.gateway.UpdateBudget(r.ctx, &gatewaypb.UpdateBudgetRequest{Tenant: fence("s1", 1), BudgetId: id, Tokens: tokens, Usd: usd})
	if err != nil {
		r.t.Fatal(err)
	}
}

func ptr(n uint64) *uint64 { return &n }

// spends issues a bearer for an agent that shares budgets.
func (r *rig) spends(bearer, agent string, budgets ...string) {
	r.t.Helper()
	r.issue("s1", bearer, func(req *gatewaypb.IssueTokenRequest) {
		req.AgentRef, req.BudgetIds = agent, budgets
	})
}

// refused asks and returns why the turn ended; "" when it was answered.
func (r *rig) refused(bearer string) string {
	r.t.Helper()
	_, events := r.ask(bearer, "m")
	code, message := failed(events)
	if code != "" && code != "invalid_prompt" {
		r.t.Errorf("the turn ended with code %s, by which Codex asks again: %s", code, message)
	}
	return message
}

// TestBudget: an agent whose tokens are used up is refused before its request
// leaves, whichever of its bearers it shows, until it gets more.
func TestBudget(t *testing.T) {
	p := newProvider(t, counted(9, 3, ""))
	r := through(t, p, "openai_chat")
	const used = "the shared token budget of 12 (a) is used up"
	r.limit("a", ptr(12), "")
	r.spends("bearer", "a", "a")
	if why := r.refused("bearer"); why != "" {
		t.Fatalf("first: %s", why)
	}
	p.body = nil
	r.spends("bearer", "a", "a")
	r.spends("next engine's", "a", "a")
	for _, bearer := range []string{"bearer", "next engine's"} {
		if why := r.refused(bearer); why != used {
			t.Errorf("%s: %q, want %q", bearer, why, used)
		}
	}
	if p.body != nil {
		t.Error("a refused request has left")
	}
	if row := r.row("s1", 1); row.GetFailureKind() != "budget" || row.GetAttempt() != 0 || row.GetProviderMessage() != used || row.GetChargedTokens() != 0 {
		t.Errorf("row %v", row)
	}
	r.limit("a", ptr(13), "")
	r.limit("b", ptr(12), "")
	r.spends("other", "b", "b")
	for _, bearer := range []string{"bearer", "other"} {
		if why := r.refused(bearer); why != "" {
			t.Errorf("%s: %s", bearer, why)
		}
	}
}

// counted is an answer with counts and a cost; without a cost when that is
// empty.
func counted(input, output uint64, cost string) func(http.ResponseWriter) {
	usage := o{"prompt_tokens": input, "completion_tokens": output}
	if cost != "" {
		usage["cost"] = json.Number(cost)
	}
	return stream(`{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":`+encoded(usage)+`}`, "[DONE]")
}

// TestSharedBudgets: agents spend from one budget, each also from its own; the
// first that is empty stops them, and a later limit lets them go on.
func TestSharedBudgets(t *testing.T) {
	r := through(t, newProvider(t, counted(8, 2, "0.25")), "openai_chat")
	r.limit("tree", ptr(25), "")
	r.limit("leaf", ptr(10), "0.75")
	r.spends("root", "a", "tree")
	r.spends("leaf", "b", "tree", "leaf")
	for i, tt := range []struct{ bearer, why string }{
		{"root", ""},
		{"leaf", ""},
		{"leaf", "the shared token budget of 10 (leaf) is used up"},
		{"root", ""}, // 20 of 25 were used: the last one may go over
		{"root", "the shared token budget of 25 (tree) is used up"},
	} {
		if why := r.refused(tt.bearer); why != tt.why {
			t.Errorf("step %d, %s: %q, want %q", i, tt.bearer, why, tt.why)
		}
	}
	r.limit("tree", nil, "0.75")
	if why := r.refused("root"); why != "the shared budget of 0.75 USD (tree) is used up" {
		t.Errorf("root: %q", why)
	}
	r.limit("tree", ptr(31), "0.750000001")
	if why := r.refused("root"); why != "" {
		t.Errorf("root: %q", why)
	}
	r.limit("tree", ptr(0), "")
	if why := r.refused("root"); why != "the shared token budget of 0 (tree) is used up" {
		t.Errorf("root: %q", why)
	}
}

// TestBudgetsFailClosed: what nobody has set, and what nobody can add up, lets
// nothing leave.
func TestBudgetsFailClosed(t *testing.T) {
	r := through(t, newProvider(t, counted(8, 2, "")), "openai_chat")
	r.spends("bearer", "a", "money")
	if why := r.refused("bearer"); why != "the budget money has not been set" {
		t.Errorf("before it is set: %q", why)
	}
	r.limit("money", nil, "5")
	if why := r.refused("bearer"); why != "" {
		t.Errorf("first: %s", why)
	}
	if why := r.refused("bearer"); why != "the shared budget of 5 USD (money) is closed: the cost of an answer is not known" {
		t.Errorf("second: %q", why)
	}
	for _, req := range []*gatewaypb.UpdateBudgetRequest{
		{BudgetId: ""}, {BudgetId: "a b"}, {BudgetId: strings.Repeat("x", 129)}, {BudgetId: "b", Usd: "-1"}, {BudgetId: "b", Usd: "1e9"}, {BudgetId: "b", Usd: "1/3"},
	} {
		req.Tenant = fence("s1", 1)
		if _, err := r.gateway.UpdateBudget(r.ctx, req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("UpdateBudget(%q, %q): %v", req.GetBudgetId(), req.GetUsd(), err)
		}
	}
	_, err := r.gateway.IssueToken(r.ctx, &gatewaypb.IssueTokenRequest{Tenant: fence("s1", 1), AgentRef: "a", TokenSha256: sha("x"), Routes: []string{"r"}, BudgetIds: []string{"\n"}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("IssueToken: %v", err)
	}
	_, err = r.gateway.UpdateBudget(r.ctx, &gatewaypb.UpdateBudgetRequest{Tenant: fence("s1", 0), BudgetId: "money"})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an older epoch: %v", err)
	}
}

// TestBudgetsSurviveTheGateway: the next gateway knows what was spent, and
// lets nothing leave before the budget is set again.
func TestBudgetsSurviveTheGateway(t *testing.T) {
	p := newProvider(t, counted(8, 2, "0.25"))
	first := through(t, p, "openai_chat")
	first.limit("tree", ptr(10), "")
	first.spends("bearer", "a", "tree")
	first.refused("bearer")
	first.drain()
	second := newRig(t, nil, &gatewaypb.StartRequest{StateDir: first.stateDir})
	second.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: p.URL, SecretName: "KEY", Models: []*gatewaypb.RouteModel{{Key: "m"}}}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
	second.spends("bearer", "a", "tree")
	if why := second.refused("bearer"); why != "the budget tree has not been set" {
		t.Errorf("before it is set: %q", why)
	}
	for _, tt := range []struct {
		tokens *uint64
		usd    string
		why    string
	}{
		{ptr(10), "", "the shared token budget of 10 (tree) is used up"},
		{nil, "0.25", "the shared budget of 0.25 USD (tree) is used up"},
		{ptr(11), "0.250000001", ""},
	} {
		second.limit("tree", tt.tokens, tt.usd)
		if why := second.refused("bearer"); why != tt.why {
			t.Errorf("limits %v and %q: %q, want %q", tt.tokens, tt.usd, why, tt.why)
		}
	}
}

// TestCharges: what the provider counted is charged; what it did not count is
// estimated where it has worked. Costs are the provider's, else those of the
// route's prices.
func TestCharges(t *testing.T) {
	const half = `{"choices":[{"index":0,"delta":{"content":"12345678"}}]}`
	const prices = `{"m":{"input":"10","cached_input":1,"output":"100"}}`
	for _, tt := range []struct {
		name    string
		answer  func(http.ResponseWriter)
		charged uint64
		cost    string
		source  string
	}{
		{"cost of the provider", counted(9, 3, "0.5"), 12, "0.5", "provider"},
		{"cost by prices", counted(1000, 100, ""), 1100, "0.02", "prices"},
		{"cached input", stream(half, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":900}}}`), 1000, "0.0019", "prices"},
		{"nothing counted", stream(half, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), 27 + 2, "0.00047", "estimate"},
		{"broken off", stream(half), 27 + 2, "0.00047", "estimate"},
		{"refused", refusal(400, `{"error":{"message":"no"}}`), 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			p := newProvider(t, tt.answer)
			r.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: p.URL, OptionsJson: []byte(`{"prices":` + prices + `}`), Models: []*gatewaypb.RouteModel{{Key: "m"}}}})
			r.issue("s1", "bearer", nil)
			// 108 bytes, 27 tokens
			r.do(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":[{"type":"message","role":"user","content":"`+strings.Repeat("x", 25)+`"}]}`))
			row := r.row("s1", 0)
			if row.GetChargedTokens() != tt.charged || row.GetCostUsd() != tt.cost || row.GetCostSource() != tt.source {
				t.Errorf("charged %d, %q by %q, want %d, %q by %q", row.GetChargedTokens(), row.GetCostUsd(), row.GetCostSource(), tt.charged, tt.cost, tt.source)
			}
		})
	}
}
