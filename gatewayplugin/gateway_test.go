package gatewayplugin_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

const hello = "model m\nstep\nsay \"hello from here\"\nusage input=9 cached=4 output=3 reasoning=1\nrepeat\n"

// TestOfflineRoute: a request runs over the scripted model and back, and its
// telemetry says so, with the turn that Codex named.
func TestOfflineRoute(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	req := r.request(r.ctx, "bearer", "m", "")
	req.Header.Set("X-Codex-Turn-Metadata", `{"thread_id":"th","turn_id":"tu","session_id":"se"}`)
	code, events := r.do(req)
	if code != http.StatusOK || kinds(events) != "created output_item.added output_text.delta output_item.done completed" {
		t.Fatalf("status %d, events %s", code, kinds(events))
	}
	if got := text(events); got != "hello from here" {
		t.Errorf("text %q", got)
	}
	wantUsage := `{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":12}`
	if got := string(events[len(events)-1].Response.Usage); got != wantUsage {
		t.Errorf("usage %s", got)
	}
	row := r.row("s1", 0)
	if row.GetSeq() != 1 || row.GetAgentRef() != "ar_s1" || row.GetThreadId() != "th" || row.GetTurnId() != "tu" ||
		row.GetRoute() != "r" || row.GetModel() != "m" || row.GetOutcome() != "completed" || !row.GetScripted() ||
		row.GetInputTokens() != 9 || row.GetCachedInputTokens() != 4 || row.GetOutputTokens() != 3 || row.GetReasoningTokens() != 1 ||
		row.GetHttpStatus() != 200 || row.GetAttempt() != 1 || row.GetFirstByteUs() == 0 || row.GetTotalUs() < row.GetFirstByteUs() {
		t.Errorf("row %v", row)
	}
}

// TestTurnIDsFromTheBody: without the header, client_metadata names the turn;
// without both, the session's header does.
func TestTurnIDsFromTheBody(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	r.do(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":"x","client_metadata":{"x-codex-turn-metadata":"{\"thread_id\":\"th\",\"turn_id\":\"tu\"}"}}`))
	if row := r.row("s1", 0); row.GetThreadId() != "th" || row.GetTurnId() != "tu" {
		t.Errorf("from client_metadata: thread %q, turn %q", row.GetThreadId(), row.GetTurnId())
	}
	req := r.request(r.ctx, "bearer", "m", "")
	req.Header.Set("Session-Id", "se")
	r.do(req)
	if row := r.row("s1", 1); row.GetThreadId() != "se" || row.GetTurnId() != "" {
		t.Errorf("from session-id: thread %q, turn %q", row.GetThreadId(), row.GetTurnId())
	}
}

// TestTenantsAreApart: equal ids of routes and models in two sessions never
// mix, nor do their telemetry and their ends.
func TestTenantsAreApart(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"one\"\nrepeat\n", "m")})
	r.apply("s2", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"two\"\nrepeat\n", "m")})
	r.issue("s1", "bearer-1", nil)
	r.issue("s2", "bearer-2", nil)
	for bearer, want := range map[string]string{"bearer-1": "one", "bearer-2": "two"} {
		if _, events := r.ask(bearer, "m"); text(events) != want {
			t.Errorf("%s: text %q, want %q", bearer, text(events), want)
		}
	}
	if r.row("s1", 0).GetAgentRef() != "ar_s1" || r.row("s2", 0).GetAgentRef() != "ar_s2" {
		t.Error("telemetry is mixed")
	}
	_, err := r.gateway.IssueToken(r.ctx, &gatewaypb.IssueTokenRequest{Tenant: fence("s2", 1), AgentRef: "a", TokenSha256: sha("bearer-1"), Routes: []string{"r"}})
	if status.Code(err) != codes.AlreadyExists {
		t.Errorf("another session's token: %v", err)
	}
	revoked, err := r.gateway.RevokeToken(r.ctx, &gatewaypb.RevokeTokenRequest{Tenant: fence("s2", 1), TokenSha256: sha("bearer-1")})
	if err != nil || revoked.GetRevoked() != 0 {
		t.Errorf("revoking another session's token: %v, %v", revoked, err)
	}
	released, err := r.gateway.Release(r.ctx, &gatewaypb.ReleaseRequest{Tenant: fence("s1", 1)})
	if err != nil || released.GetRemaining() != 1 {
		t.Errorf("Release: %v, %v", released, err)
	}
	if code, _ := r.ask("bearer-1", "m"); code != http.StatusUnauthorized {
		t.Errorf("a released session's bearer: status %d", code)
	}
	if _, events := r.ask("bearer-2", "m"); text(events) != "two" {
		t.Errorf("the other session: %q", text(events))
	}
}

// TestFence: an older epoch does nothing, an older revision neither; a new
// epoch begins its own revisions.
func TestFence(t *testing.T) {
	r := newRig(t, nil, nil)
	apply := func(epoch, revision uint64) codes.Code {
		_, err := r.gateway.ApplyRoutes(r.ctx, &gatewaypb.ApplyRoutesRequest{Tenant: fence("s1", epoch), Revision: revision})
		return status.Code(err)
	}
	for _, tt := range []struct {
		epoch, revision uint64
		want            codes.Code
	}{
		{1, 2, codes.OK},
		{1, 2, codes.OK},
		{1, 1, codes.FailedPrecondition},
		{2, 1, codes.OK},
		{1, 9, codes.FailedPrecondition},
	} {
		if got := apply(tt.epoch, tt.revision); got != tt.want {
			t.Errorf("epoch %d, revision %d: %s, want %s", tt.epoch, tt.revision, got, tt.want)
		}
	}
	_, err := r.gateway.Release(r.ctx, &gatewaypb.ReleaseRequest{Tenant: fence("s1", 1)})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Release of an older epoch: %v", err)
	}
	for _, session := range []string{"", "../x", "A"} {
		_, err := r.gateway.Models(r.ctx, &gatewaypb.ModelsRequest{Tenant: fence(session, 1)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("tenant %q: %v", session, err)
		}
	}
}

// TestStartIsIdempotent: a second Start returns the first answer, and another
// gateway's is refused.
func TestStartIsIdempotent(t *testing.T) {
	r := newRig(t, nil, &gatewaypb.StartRequest{GatewayHash: "h"})
	again, err := r.gateway.Start(r.ctx, &gatewaypb.StartRequest{GatewayHash: "h", StateDir: r.stateDir})
	if err != nil || again.GetBaseUrl() != r.base || int(again.GetProcess().GetPid()) != os.Getpid() {
		t.Errorf("again: %v, %v", again, err)
	}
	if _, err := r.gateway.Start(r.ctx, &gatewaypb.StartRequest{GatewayHash: "x"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another hash: %v", err)
	}
}

// TestRoutesThatCannotServe: each is unavailable with its reason, and its
// requests end the turn with it.
func TestRoutesThatCannotServe(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, tt := range []struct {
		name  string
		route *gatewaypb.Route
		want  string
	}{
		{"driver", &gatewaypb.Route{Driver: "x"}, `unknown driver "x"`},
		{"script", offline("r", "modl m\n"), `script line 1: unknown statement "modl"`},
		{"wire", offlineOn("carrier_pigeon", hello), `there is no wire "carrier_pigeon"; use one of openai_responses, openai_chat, anthropic_messages`},
		{"wire of a provider", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"wire":"openai_chat"}`)}, "the wire of driver openai_chat can't be chosen"},
		{"Anthropic's URL", &gatewaypb.Route{Driver: "anthropic_messages"}, "is no http or https URL"},
		{"options", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"hedders":{}}`)}, `unknown field "hedders"`},
		{"secret", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", SecretName: "NO_KEY"}, "there is no secret NO_KEY; add NO_KEY to credentials.env"},
		{"clear text", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "http://h", SecretName: "KEY"}, "would send the secret unencrypted; use https"},
		{"URL", &gatewaypb.Route{Driver: "openai_responses", BaseUrl: "ftp://h"}, "is no http or https URL"},
		{"query in the URL", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h/v1?key=x"}, "is no http or https URL without a query"},
		{"secret header", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"secret_headers":{"X-Org":"NO_KEY"}}`)}, "there is no secret NO_KEY; add NO_KEY to credentials.env"},
		{"secret header that is ours", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"secret_headers":{"host":"KEY"}}`)}, `header "host" can't be set; leave it out`},
		{"two secrets for one header", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", SecretName: "KEY", OptionsJson: []byte(`{"secret_headers":{"authorization":"KEY"}}`)}, `header "authorization" has two secrets`},
		{"secret header in clear text", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "http://h", OptionsJson: []byte(`{"secret_headers":{"X-Org":"KEY"}}`)}, "would send the secret unencrypted; use https"},
		{"control characters in a secret", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"secret_headers":{"X-Org":"BROKEN"}}`)}, "the secret BROKEN has control characters"},
		{"header that is none", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"headers":{"a b":"x"}}`)}, `"a b" is no header that can be sent`},
		{"header of two lines", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"headers":{"X-A":"x\r\nHost: h"}}`)}, `"X-A" is no header that can be sent`},
		{"session header that is ours", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"session_header":"Authorization"}`)}, `header "Authorization" can't name the conversation`},
		{"retries", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"retries":11}`)}, "retries must be 0 to 10, not 11"},
		{"prices", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"prices":{"m":{"input":"-1","output":"2"}}}`)}, `the prices of "m" can't be used`},
		{"header", &gatewaypb.Route{Driver: "openai_chat", BaseUrl: "https://h", OptionsJson: []byte(`{"headers":{"authorization":"x"}}`)}, `header "authorization" would put a key in the open`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.route.Id = "r"
			tt.route.Models = []*gatewaypb.RouteModel{{Key: "m"}}
			answer, err := r.gateway.ApplyRoutes(r.ctx, &gatewaypb.ApplyRoutesRequest{
				Tenant: fence("s1", 1), Revision: 1, Routes: []*gatewaypb.Route{tt.route},
				Secrets: []*basepb.Secret{{Name: "KEY", Value: []byte("planted-secret")}, {Name: "BROKEN", Value: []byte("planted-secret\r\nX-Evil: 1")}},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := answer.GetRoutes()[0]
			if s.GetState() != "unavailable" || !strings.Contains(s.GetMessage(), tt.want) || strings.Contains(s.GetMessage(), "planted-secret") {
				t.Errorf("%s: %s, want %s", s.GetState(), s.GetMessage(), tt.want)
			}
			r.issue("s1", "bearer", nil)
			_, events := r.ask("bearer", "m")
			if code, message := failed(events); code != "invalid_prompt" || !strings.Contains(message, tt.want) {
				t.Errorf("failed %s: %s", code, message)
			}
		})
	}
}

// TestBearerMayComeLate: a gateway that replaced a lost one is asked before it
// is armed; the request waits instead of failing its turn.
func TestBearerMayComeLate(t *testing.T) {
	r := newRig(t, &gatewayplugin.Options{ArmWindow: 20 * time.Second}, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	answered := make(chan string, 1)
	go func() {
		_, events := r.ask("late", "m")
		answered <- text(events)
	}()
	r.issue("s1", "other", nil)
	r.issue("s1", "late", nil)
	if got := <-answered; got != "hello from here" {
		t.Errorf("text %q", got)
	}
}

// TestClientThatLeaves: when Codex closes the connection, the provider's
// answer is cancelled at once and the row says so.
func TestClientThatLeaves(t *testing.T) {
	script, err := modeltest.Parse("model m\nstep\nsay \"a\"\nhold never\n")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := modeltest.NewServer(t.Context(), script, "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: provider.URL, Models: []*gatewaypb.RouteModel{{Key: "m"}}}})
	r.issue("s1", "bearer", nil)
	ctx, leave := context.WithCancel(r.ctx)
	resp, err := r.client.Do(r.request(ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := provider.Engine.WaitHeld(r.ctx, "never"); err != nil {
		t.Fatal(err)
	}
	leave()
	gone := func(rs []modeltest.Request) bool { return rs[0].State == modeltest.StateGone }
	if err := provider.Engine.Wait(r.ctx, gone); err != nil {
		t.Error(err)
	}
	if row := r.row("s1", 0); row.GetOutcome() != "cancelled" || row.GetFailureKind() != "cancelled" {
		t.Errorf("row %v", row)
	}
}

// TestVector27KeepAlive: a provider that thinks is covered by data events, which alone
// keep Codex's idle timer from ending the turn.
func TestVector27KeepAlive(t *testing.T) {
	r := newRig(t, &gatewayplugin.Options{ArmWindow: -1, KeepAlive: time.Millisecond}, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\ndelay 30ms\nsay \"x\"\n", "m")})
	r.issue("s1", "bearer", nil)
	_, events := r.ask("bearer", "m")
	if got := kinds(events); !strings.HasPrefix(got, "created in_progress ") || text(events) != "x" {
		t.Errorf("events %s", got)
	}
}

// TestConcurrentStreams: 64 streams of two sessions at once, each with its own
// text.
func TestConcurrentStreams(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, session := range []string{"s1", "s2"} {
		r.apply(session, []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"for "+session+" says ${@user last}\"\n", "m")})
		r.issue(session, "bearer-"+session, nil)
	}
	const streams = 64
	type outcome struct{ got, want string }
	results := make(chan outcome, streams)
	for i := range streams {
		session := []string{"s1", "s2"}[i%2]
		go func() {
			word := strings.Repeat("x", i+1)
			req := r.request(r.ctx, "bearer-"+session, "m", `{"model":"m","stream":true,"input":"`+word+`"}`)
			_, events := r.do(req)
			results <- outcome{text(events), "for " + session + " says " + word}
		}()
	}
	for range streams {
		if o := <-results; o.got != o.want {
			t.Errorf("text %q, want %q", o.got, o.want)
		}
	}
	if got := len(r.rows("s1", 0)) + len(r.rows("s2", 0)); got != streams {
		t.Errorf("%d rows for %d streams", got, streams)
	}
	for i, row := range r.rows("s1", 0) {
		if row.GetSeq() != uint64(i+1) {
			t.Errorf("row %d has the number %d", i, row.GetSeq())
		}
	}
}
