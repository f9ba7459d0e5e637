package gatewayplugin_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestSecretsStayHere: a provider that repeats what it was sent, wherever it
// does, brings no secret to Codex, the telemetry, the metrics or the log.
func TestSecretsStayHere(t *testing.T) {
	const org = "planted-org-9876543210"
	const both = "key " + secret + " org " + org
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter)
	}{
		{"error", refusal(400, `{"error":{"message":"`+both+`"}}`)},
		{"error as text", refusal(502, both)},
		{"error in the stream", stream(`{"error":{"code":400,"message":"` + both + `"}}`)},
		{"type and code", refusal(400, `{"error":{"type":"`+both+`","code":"`+both+`"}}`)},
		{"reset time", refusal(429, `{"error":{"type":"usage_limit_reached","message":"x","resets_at":"`+both+`"}}`)},
		{"reason to end", stream(`{"choices":[{"index":0,"delta":{},"finish_reason":"` + both + `"}]}`)},
		{"names", stream(`{"id":"` + both + `","model":"` + both + `","provider":"` + both + `","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)},
		{"no JSON", stream(both)},
		{"escaped", refusal(400, `{"error":{"message":"`+strings.ReplaceAll(both, "p", `\u0070`)+`"}}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log lockedBuffer
			opts := quick()
			opts.Log = log.logger()
			r := newRig(t, opts, nil)
			p := newProvider(t, tt.answer)
			r.apply("s1", []*gatewaypb.Route{{
				Id: "r", Driver: "openai_chat", BaseUrl: p.URL, SecretName: "KEY", OptionsJson: []byte(`{"retries":0,"secret_headers":{"X-Org":"ORG"}}`),
				Models: []*gatewaypb.RouteModel{{Key: "m"}},
			}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)}, &basepb.Secret{Name: "ORG", Value: []byte(org)})
			r.issue("s1", "bearer", nil)
			resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			r.row("s1", 0)
			rows, err := os.ReadFile(filepath.Join(r.stateDir, "telemetry-s1.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			metrics, err := r.client.Get(strings.TrimSuffix(r.base, "/v1") + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer metrics.Body.Close()
			counts, err := io.ReadAll(metrics.Body)
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range map[string]string{"Codex": string(body), "telemetry": string(rows), "metrics": string(counts), "log": log.String()} {
				if strings.Contains(text, secret) || strings.Contains(text, org) {
					t.Errorf("%s holds a secret: %s", where, text)
				}
			}
			if p.header.Get("Authorization") != "Bearer "+secret || p.header.Get("X-Org") != org {
				t.Errorf("the provider got %v", p.header)
			}
		})
	}
}

// TestNoProxyOfTheEnvironment: proxies of the environment, which could read
// the keys, are not asked.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	var asked atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	r := newRig(t, nil, nil)
	// A name that only a proxy could find: it would be asked for it.
	r.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: "https://provider.invalid/v1", SecretName: "KEY", OptionsJson: []byte(`{"retries":0}`), Models: []*gatewaypb.RouteModel{{Key: "m"}}}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
	r.issue("s1", "bearer", nil)
	_, events := r.ask("bearer", "m")
	if code, message := failed(events); code != "server_error" || asked.Load() {
		t.Errorf("failed %s: %s; the proxy was asked: %v", code, message, asked.Load())
	}
}

// TestRedirectsCarryNothing: a redirect is not followed, not even to another
// path of the same provider, and the request's own words choose no target.
func TestRedirectsCarryNothing(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		p := newProvider(t, refusal(code, "", "Location", other.URL))
		r := through(t, p, "openai_chat")
		req := r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":"x","base_url":"`+other.URL+`","api_base":"`+other.URL+`"}`)
		req.Header.Set("X-Base-Url", other.URL)
		req.Header.Set("X-Forwarded-Host", strings.TrimPrefix(other.URL, "http://"))
		_, events := r.do(req)
		if got, _ := failed(events); got != "invalid_prompt" || elsewhere.Load() != 0 {
			t.Errorf("HTTP %d: failed %s, %d requests elsewhere", code, got, elsewhere.Load())
		}
		for name := range p.header {
			if name == "X-Base-Url" || name == "X-Forwarded-Host" || name == "Cookie" {
				t.Errorf("the client's header %s has gone on", name)
			}
		}
	}
}

// TestSlowClients: a header or a body that never comes ends the connection,
// with and without a bearer; a request that is being answered is not cut.
func TestSlowClients(t *testing.T) {
	opts := quick()
	opts.BodyWithin = 50 * time.Millisecond
	r := newRig(t, opts, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\ndelay 200ms\nsay \"late\"\n", "m")})
	r.issue("s1", "bearer", nil)
	address := strings.TrimSuffix(strings.TrimPrefix(r.base, "http://"), "/v1")
	for name, bearer := range map[string]string{"ours": "bearer", "anyone": "unknown"} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "POST /v1/responses HTTP/1.1\r\nHost: "+address+"\r\nAuthorization: Bearer "+bearer+"\r\nContent-Length: 1000000\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("the connection did not end: %v", err)
			}
		})
	}
	if _, events := r.ask("bearer", "m"); text(events) != "late" {
		t.Errorf("a slow answer: %s", kinds(events))
	}
}

// TestLimits: headers and bodies that are too large are refused.
func TestLimits(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	req := r.request(r.ctx, "bearer", "m", "")
	req.Header.Set("X-Codex-Turn-Metadata", strings.Repeat("x", 300<<10))
	if code, _ := r.do(req); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 300 KiB: status %d", code)
	}
	big, out := io.Pipe()
	go func() { // ends when the server has seen enough
		w := bufio.NewWriter(out)
		_, _ = w.WriteString(`{"model":"m","input":"`)
		chunk := strings.Repeat("x", 1<<20)
		for range 65 {
			if _, err := w.WriteString(chunk); err != nil {
				break
			}
		}
		_ = w.Flush()
		_ = out.Close()
	}()
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, r.base+"/responses", big)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer bearer")
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a body of 65 MiB: status %d", resp.StatusCode)
	}
}

// TestListenerMustBeLoopback: the gateway serves no other interface.
func TestListenerMustBeLoopback(t *testing.T) {
	g := gatewayplugin.New(&gatewayplugin.Options{Listen: func() (net.Listener, error) { return net.Listen("tcp", "0.0.0.0:0") }})
	defer func() { _ = g.Drain(t.Context()) }()
	_, err := g.Start(t.Context(), &gatewaypb.StartRequest{StateDir: filepath.Join(t.TempDir(), "gateway")})
	if err == nil || !strings.Contains(err.Error(), "must be TCP on loopback") {
		t.Errorf("Start: %v", err)
	}
}

// TestMetadataIsNoTarget: what Codex says of the turn is kept as short words.
func TestMetadataIsNoTarget(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	req := r.request(r.ctx, "bearer", "m", "")
	raw, err := json.Marshal(map[string]string{"thread_id": "a\nb" + strings.Repeat("x", 1000), "turn_id": "\x00"})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Codex-Turn-Metadata", string(raw))
	r.do(req)
	if row := r.row("s1", 0); len(row.GetThreadId()) != 200 || !strings.HasPrefix(row.GetThreadId(), "a b") || row.GetTurnId() != "" {
		t.Errorf("thread %q, turn %q", row.GetThreadId(), row.GetTurnId())
	}
}
