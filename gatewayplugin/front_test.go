package gatewayplugin_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestRefusals: what is no request of one of our Codex processes is refused
// before anything is read.
func TestRefusals(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	r.issue("s1", "expired", func(req *gatewaypb.IssueTokenRequest) { req.ExpiresAt = time.Now().Unix() - 1 })
	r.issue("s1", "narrow", func(req *gatewaypb.IssueTokenRequest) { req.Models = []string{"other"} })
	r.issue("s1", "elsewhere", func(req *gatewaypb.IssueTokenRequest) { req.Routes = []string{"q"} })
	for _, tt := range []struct {
		name   string
		bearer string
		body   string
		change func(*http.Request)
		want   int
	}{
		{"origin", "bearer", "", func(q *http.Request) { q.Header.Set("Origin", "http://127.0.0.1") }, http.StatusForbidden},
		{"empty origin", "bearer", "", func(q *http.Request) { q.Header["Origin"] = []string{""} }, http.StatusForbidden},
		{"host", "bearer", "", func(q *http.Request) { q.Host = "example.com" }, http.StatusForbidden},
		{"host with our port", "bearer", "", func(q *http.Request) { q.Host = "evil.example:" + q.URL.Port() }, http.StatusForbidden},
		{"host without port", "bearer", "", func(q *http.Request) { q.Host = "127.0.0.1" }, http.StatusForbidden},
		{"localhost", "bearer", "", func(q *http.Request) { q.Host = "localhost:" + q.URL.Port() }, http.StatusOK},
		{"no bearer", "", "", func(q *http.Request) { q.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"unknown bearer", "beare", "", nil, http.StatusUnauthorized},
		{"the hash as bearer", sha("bearer"), "", nil, http.StatusUnauthorized},
		{"expired", "expired", "", nil, http.StatusUnauthorized},
		{"model of another agent", "narrow", "", nil, http.StatusBadRequest},
		{"route of another agent", "elsewhere", "", nil, http.StatusBadRequest},
		{"no JSON", "bearer", "{", nil, http.StatusBadRequest},
		{"no stream", "bearer", `{"model":"m","input":"x"}`, nil, http.StatusBadRequest},
		{"compressed", "bearer", "", func(q *http.Request) { q.Header.Set("Content-Encoding", "zstd") }, http.StatusUnsupportedMediaType},
		{"other path", "bearer", "", func(q *http.Request) { q.URL.Path = "/v1/files" }, http.StatusNotFound},
		{"other method", "bearer", "", func(q *http.Request) { q.Method = http.MethodGet }, http.StatusMethodNotAllowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := r.request(r.ctx, tt.bearer, "m", tt.body)
			if tt.change != nil {
				tt.change(req)
			}
			if code, _ := r.do(req); code != tt.want {
				t.Errorf("status %d, want %d", code, tt.want)
			}
		})
	}
}

// TestModelsHealthAndMetrics: what is not the model's wire.
func TestModelsHealthAndMetrics(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m", "n")})
	r.issue("s1", "bearer", func(req *gatewaypb.IssueTokenRequest) { req.Models = []string{"m"} })
	r.ask("bearer", "m")
	get := func(url, bearer string) (int, string) {
		req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		rec := httptest.NewRecorder()
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := rec.Body.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, rec.Body.String()
	}
	root := strings.TrimSuffix(r.base, "/v1")
	if code, body := get(r.base+"/models", "bearer"); code != http.StatusOK || strings.TrimSpace(body) != `{"object":"list","data":[{"id":"m","object":"model","owned_by":"r"}]}` {
		t.Errorf("models: %d %s", code, body)
	}
	if code, _ := get(r.base+"/models", ""); code != http.StatusUnauthorized {
		t.Errorf("models without bearer: %d", code)
	}
	if code, body := get(root+"/health", ""); code != http.StatusOK || !strings.Contains(body, `"status":"ok","tenants":1`) {
		t.Errorf("health: %d %s", code, body)
	}
	code, body := get(root+"/metrics", "")
	for _, want := range []string{
		`mmo_gateway_requests_total{route="r",model="m",outcome="completed",failure=""} 1`,
		`mmo_gateway_tokens_total{route="r",model="m",kind="input"} 9`,
		"# TYPE mmo_gateway_in_flight gauge",
		"# TYPE mmo_gateway_first_byte_seconds histogram",
		`mmo_gateway_first_byte_seconds_bucket{route="r",le="+Inf"} 1`,
		`mmo_gateway_first_byte_seconds_count{route="r"} 1`,
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics lack %s: %d %s", want, code, body)
		}
	}
	if strings.Contains(body, "s1") {
		t.Error("metrics name a session")
	}
	health, err := r.gateway.Health(r.ctx, &gatewaypb.HealthRequest{})
	if err != nil || !slices.Equal(health.GetTenants(), []string{"s1"}) || health.GetRoutes()[0].GetRoute() != "s1/r" {
		t.Errorf("Health: %v, %v", health, err)
	}
}
