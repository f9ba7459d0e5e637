package gatewayplugin_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestMetrics: attempts, repetitions, refusals, tokens, cost and what was left
// out, each once, in a form that Prometheus reads.
func TestMetrics(t *testing.T) {
	asked := 0
	p := newProvider(t, func(w http.ResponseWriter) {
		if asked++; asked == 1 {
			refusal(503, `{"error":{"message":"busy"}}`)(w)
			return
		}
		counted(1000, 100, "")(w)
	})
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{
		Id: "r", Driver: "openai_chat", BaseUrl: p.URL, Models: []*gatewaypb.RouteModel{{Key: "m"}},
		OptionsJson: []byte(`{"prices":{"*":{"input":"10","output":"100"}}}`),
	}})
	r.limit("a", ptr(1100), "")
	r.spends("bearer", "a", "a")
	r.do(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":"x","tools":[{"type":"web_search"}]}`))
	r.ask("bearer", "m")
	resp, err := r.client.Get(strings.TrimSuffix(r.base, "/v1") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`mmo_gateway_requests_total{route="r",model="m",outcome="completed",failure=""} 1`,
		`mmo_gateway_requests_total{route="r",model="m",outcome="failed",failure="overloaded"} 1`,
		`mmo_gateway_retries_total{route="r"} 1`,
		`mmo_gateway_refused_total{route="r",failure="budget"} 1`,
		`mmo_gateway_tokens_total{route="r",model="m",kind="input"} 1000`,
		`mmo_gateway_cost_usd_total{route="r",model="m",source="prices"} 0.02`,
		`mmo_gateway_dropped_total{route="r",part="tools.web_search"} 1`,
		`mmo_gateway_first_byte_seconds_bucket{route="r",le="300"} 1`,
	} {
		if strings.Count(string(body), want+"\n") != 1 {
			t.Errorf("metrics lack %s:\n%s", want, body)
		}
	}
}
