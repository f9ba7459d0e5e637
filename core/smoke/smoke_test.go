package smoke_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/smoke"
)

// TestOnlySuccessfulCallsCount: in both vocabularies, bare and as a session
// keeps them, a failed call proves nothing.
//
// Spec: R016
func TestOnlySuccessfulCallsCount(t *testing.T) {
	for name, events := range map[string]string{
		"exec": `{"type":"item.completed","item":{"type":"mcp_tool_call","server":"ida","tool":"decompile","status":"completed","error":null}}
{"type":"item.completed","item":{"type":"mcp_tool_call","server":"ida","tool":"disasm","status":"failed","error":{"message":"failed"}}}
{"type":"item.completed","item":{"type":"mcp_tool_call","server":"ida","tool":"odd","status":"completed","error":{"message":"failed"}}}
{"type":"item.started","item":{"type":"mcp_tool_call","server":"ida","tool":"begun","status":"completed","error":null}}
{"type":"item.completed","item":{"type":"command_execution","server":"ida","tool":"shell","status":"completed"}}`,
		"app-server": `{"method":"item/completed","params":{"item":{"type":"mcpToolCall","server":"ida","tool":"decompile","status":"completed","error":null}}}
{"method":"item/completed","params":{"item":{"type":"mcpToolCall","server":"ida","tool":"disasm","status":"failed","error":{"message":"failed"}}}}
{"method":"item/started","params":{"item":{"type":"mcpToolCall","server":"ida","tool":"begun","status":"completed"}}}`,
		"session": `{"gen":1,"seq":7,"direction":"in","message":{"method":"item/completed","params":{"item":{"type":"mcpToolCall","server":"ida","tool":"decompile","status":"completed"}}}}`,
		"damaged": "\n[]\n{\"type\":7}\n{\"type\":\"item.completed\",\"item\":[]}\n" + strings.Repeat("x", 17<<20) + "\n" +
			`{"type":"item.completed","item":{"type":"mcp_tool_call","server":"ida","tool":"decompile","status":"completed"}}` + "\n{\"type\":\"item.comp",
	} {
		got, err := smoke.SuccessfulTools(strings.NewReader(events), nil)
		if diff := cmp.Diff([]string{"ida.decompile"}, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	broken := errors.New("broken")
	if _, err := smoke.SuccessfulTools(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Errorf("a log that can't be read: %v", err)
	}
}

// TestBridgedCallsCountForTheirTool: a call over the bridge counts as the
// required tool whose name it has there, and for no other.
//
// Spec: R017
func TestBridgedCallsCountForTheirTool(t *testing.T) {
	const call = `{"type":"dynamicToolCall","tool":"mmo_mcp__repo_search__query","status":"completed","success":true,"arguments":{"query":"bounded"}}`
	exec := `{"type":"item.completed","schema":{"type":{"unexpected":"object"}},"item":` + call + `}`
	for _, tt := range []struct {
		name, events string
		required     []string
		want         []string
	}{
		{"exec", exec, []string{"repo.search.query"}, []string{"repo.search.query"}},
		{"app-server", `{"method":"item/completed","params":{"item":` + call + `}}`, []string{"repo.search.query"}, []string{"repo.search.query"}},
		{"not required", exec, []string{"other.query"}, nil},
		{"no success", strings.Replace(exec, `"success":true`, `"success":false`, 1), []string{"repo.search.query"}, nil},
		{"not completed", strings.Replace(exec, `"status":"completed"`, `"status":"failed"`, 1), []string{"repo.search.query"}, nil},
	} {
		got, err := smoke.SuccessfulTools(strings.NewReader(tt.events), tt.required)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
}

func n(v uint32) *uint32 { return &v }

// TestRouteTelemetry: who served, after how many attempts; what nobody told is
// absent, and without a provider the telemetry is not complete.
//
// Spec: R018
func TestRouteTelemetry(t *testing.T) {
	none := []string{}
	for _, tt := range []struct {
		name, rows string
		want       smoke.Route
	}{
		{
			"routing", `{"routing":{"serving_provider_slug":"parasail","serving_endpoint_tag":"parasail/fp8","attempt":2,"retry_count":1,"fallback_index":0}}`,
			smoke.Route{
				ServingProviders: []string{"parasail"}, ServingEndpoints: []string{"parasail/fp8"}, SuccessfulAttempt: n(2), Retries: n(1), FallbackIndex: n(0),
				Complete: true, RetryTelemetryComplete: true,
			},
		},
		{
			"OpenRouter", `{"openrouter_metadata":{"attempt":2,"endpoints":{"available":[{"provider":"First","selected":false},{"provider":"Chosen","selected":true}]},"attempts":[{"provider":"First","status":529},{"provider":"Chosen","status":200}]}}`,
			smoke.Route{ServingProviders: []string{"Chosen"}, ServingEndpoints: none, SuccessfulAttempt: n(2), FallbackIndex: n(1), Complete: true},
		},
		{
			"an attempt alone", `{"routing":{"attempt":2}}`,
			smoke.Route{ServingProviders: none, ServingEndpoints: none, SuccessfulAttempt: n(2), FallbackIndex: n(1)},
		},
		{
			"both in one row", `{"routing":{"serving_provider_slug":"a"},"openrouter_metadata":{"attempt":3,"endpoints":{"available":[{"provider":"b","selected":true}]}}}`,
			smoke.Route{ServingProviders: []string{"a"}, ServingEndpoints: none, Complete: true},
		},
		{
			"rows of the gateway", `{"seq":"1","outcome":"failed","failure_kind":"overloaded","serving_provider":"Down"}
{"seq":"2","outcome":"completed","serving_provider":"Some Host","serving_endpoint":"some-host/fp8","router_attempt":1,"router_fallback_index":0,"first_byte_us":"12"}
{"seq":"3","outcome":"completed","serving_provider":"Other","router_attempt":2,"router_fallback_index":1}`,
			smoke.Route{
				ServingProviders: []string{"Some Host", "Other"}, ServingEndpoints: []string{"some-host/fp8"}, SuccessfulAttempt: n(2), FallbackIndex: n(1),
				Complete: true,
			},
		},
		{"nothing", `{"type":"turn.completed"}`, smoke.Route{ServingProviders: none, ServingEndpoints: none}},
		{"odd", `{"routing":{"serving_provider_slug":["x"],"attempt":-1,"retry_count":"1"}}`, smoke.Route{ServingProviders: none, ServingEndpoints: none}},
	} {
		got, err := smoke.RouteTelemetry(strings.NewReader(tt.rows))
		if diff := cmp.Diff(&tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", tt.name, err, diff)
		}
	}
}
