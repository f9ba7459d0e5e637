package gatewayplugin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestRouterTelemetry: what a provider that routes on says of its own way, on
// either wire, is in the row, beside the policy that the route asks for; what
// it does not say is absent. Another provider than the policy allows is marked.
func TestRouterTelemetry(t *testing.T) {
	const metadata = `"openrouter_metadata":{"attempt":2,"endpoints":{"available":[{"provider":"First","selected":false},{"provider":"Chosen","tag":"chosen/fp8","selected":true}]}}`
	answers := map[string]func(http.ResponseWriter){
		"openai_chat":      stream(`{"id":"gen-1","provider":"Chosen","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[],`+metadata+`,"usage":{"prompt_tokens":9,"completion_tokens":3,"cost":0.0125}}`, "[DONE]"),
		"openai_responses": stream(`{"type":"response.completed","response":{"id":"gen-1","usage":{"input_tokens":9,"output_tokens":3,"cost":0.0125},` + metadata + `}}`),
	}
	for wire, answer := range answers {
		for only, violated := range map[string]bool{`["chosen/fp8"]`: false, `["other","Chosen"]`: false, `["first"]`: true, `[]`: false} {
			t.Run(wire+only, func(t *testing.T) {
				p := newProvider(t, answer)
				policy := `{"only":` + only + `}`
				r := newRig(t, nil, nil)
				r.apply("s1", []*gatewaypb.Route{{
					Id: "r", Driver: wire, BaseUrl: p.URL, Models: []*gatewaypb.RouteModel{{Key: "m"}},
					OptionsJson: fmt.Appendf(nil, `{"headers":{"X-OpenRouter-Metadata":"enabled"},"body":{"provider":%s,"stream":false}}`, policy),
				}})
				r.issue("s1", "bearer", nil)
				r.ask("bearer", "m")
				row := r.row("s1", 0)
				if row.GetServingProvider() != "Chosen" || row.GetServingEndpoint() != "chosen/fp8" || row.GetGenerationId() != "gen-1" ||
					row.GetRouterAttempt() != 2 || row.GetRouterFallbackIndex() != 1 ||
					row.GetRequestedPolicy() != policy || row.GetPolicyViolated() != violated ||
					row.GetCostUsd() != "0.0125" || row.GetCostSource() != "provider" {
					t.Errorf("row %v", row)
				}
				body := string(p.body)
				if !strings.Contains(body, `"provider":`+policy) || !strings.Contains(body, `"stream":true`) || p.header.Get("X-Openrouter-Metadata") != "enabled" {
					t.Errorf("the provider got %s", body)
				}
			})
		}
	}
}
