package plugins

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// ProtocolVersion is the version of the contracts that this build speaks.
const ProtocolVersion = 1

// Kind is what a plugin does; it is also its name in a go-plugin set.
type Kind string

// The kinds of plugins.
const (
	KindHost    Kind = "host"    // drives one agent's thread
	KindGateway Kind = "gateway" // serves routes to models
)

// EnvDir is the environment variable that names the plugin's instance folder.
const EnvDir = "MMO_PLUGIN_DIR"

// MaxMessageSize bounds one message in either direction, in bytes.
const MaxMessageSize = 64 << 20

// Handshake is what tells a plugin that codex-mmo started it. It is no secret
// and protects nothing: it only turns a start by hand into a clear message.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "CODEX_MMO_PLUGIN",
	MagicCookieValue: "b7d1c0de-first-light",
}

// HostPlugin is the go-plugin glue of the host contract. Impl is nil on the
// caller's side.
type HostPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl hostpb.HostServer
}

// GRPCServer registers the host on the plugin's server.
func (p *HostPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	hostpb.RegisterHostServer(s, p.Impl)
	return nil
}

// GRPCClient returns a hostpb.HostClient.
func (p *HostPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return hostpb.NewHostClient(conn), nil
}

// GatewayPlugin is the go-plugin glue of the gateway contract. Impl is nil
// on the caller's side.
type GatewayPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl gatewaypb.GatewayServer
}

// GRPCServer registers the gateway on the plugin's server.
func (p *GatewayPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	gatewaypb.RegisterGatewayServer(s, p.Impl)
	return nil
}

// GRPCClient returns a gatewaypb.GatewayClient.
func (p *GatewayPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return gatewaypb.NewGatewayClient(conn), nil
}

var (
	_ plugin.GRPCPlugin = (*HostPlugin)(nil)
	_ plugin.GRPCPlugin = (*GatewayPlugin)(nil)
)

// Sets returns what a caller offers when it negotiates with a plugin of that
// kind: the versions it speaks.
func Sets(kind Kind) map[int]plugin.PluginSet {
	var p plugin.Plugin = &HostPlugin{}
	if kind == KindGateway {
		p = &GatewayPlugin{}
	}
	return map[int]plugin.PluginSet{ProtocolVersion: {string(kind): p}}
}
