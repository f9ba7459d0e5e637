package profiles_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestTheGatewayTakesEveryRoute: what a profile says of its routes is what the
// gateway understands, of every bundled route that it serves.
func TestTheGatewayTakesEveryRoute(t *testing.T) {
	g := gatewayplugin.New(&gatewayplugin.Options{Listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }})
	if _, err := g.Start(t.Context(), &gatewaypb.StartRequest{StateDir: filepath.Join(testkit.PrivateDir(t), "gateway")}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, id := range ids(t) {
		s := compile(t, id)
		req := &gatewaypb.ApplyRoutesRequest{Tenant: &basepb.Fence{SessionId: id, Epoch: 1}, Revision: 1}
		for _, r := range s.Routes {
			if r.Direct() {
				continue
			}
			options, err := s.RouteOptions(r.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range s.RouteSecrets(r.ID) {
				req.Secrets = append(req.Secrets, &basepb.Secret{Name: name, Value: []byte("k")})
			}
			req.Routes = append(req.Routes, &gatewaypb.Route{Id: r.ID, Driver: r.Driver, BaseUrl: r.BaseURL, SecretName: r.CredentialEnv, OptionsJson: options})
		}
		answer, err := g.ApplyRoutes(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range answer.GetRoutes() {
			if r.GetState() != "ready" {
				t.Errorf("profile %s: the gateway can't use route %s: %s", id, r.GetRoute(), r.GetMessage())
			}
		}
	}
}
