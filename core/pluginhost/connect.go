package pluginhost

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// dial makes a connection to a plugin's socket. It reconnects by itself when
// it is used; nothing is sent before.
func dial(socket, dir string) (*grpc.ClientConn, error) {
	config, err := plugins.ClientTLS(dir)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(plugins.MaxMessageSize),
			grpc.MaxCallSendMsgSize(plugins.MaxMessageSize)),
		// The peer is on this machine: there is no congestion to back off from.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
}

// describe makes the first call. Kind may be empty: then the contract that the
// plugin serves decides.
func describe(ctx context.Context, conn grpc.ClientConnInterface, kind string) (*basepb.DescribeResponse, error) {
	req := &basepb.DescribeRequest{}
	if kind != string(plugins.KindGateway) {
		answer, err := hostpb.NewHostClient(conn).Describe(ctx, req)
		if kind != "" || status.Code(err) != codes.Unimplemented {
			return answer, err
		}
	}
	return gatewaypb.NewGatewayClient(conn).Describe(ctx, req)
}

// checkDescription compares what a plugin says with what it must be.
func checkDescription(d *basepb.DescribeResponse, kind string, id process.Identity, protocol int) error {
	p := d.GetProcess()
	switch {
	case int(p.GetPid()) != id.PID,
		p.GetStartToken() != "" && p.GetStartToken() != id.StartToken,
		p.GetBootId() != "" && p.GetBootId() != id.BootID:
		return fmt.Errorf("it is process %d started at %q, expected is process %d started at %q: %w",
			p.GetPid(), p.GetStartToken(), id.PID, id.StartToken, ErrRefused)
	case kind != "" && !slices.Contains(d.GetKinds(), kind):
		return fmt.Errorf("its kinds are %q, expected is %q: %w", d.GetKinds(), kind, ErrRefused)
	case !slices.Contains(d.GetProtocolVersions(), uint32(protocol)):
		return fmt.Errorf("it serves protocol versions %v, not %d: %w", d.GetProtocolVersions(), protocol, ErrRefused)
	}
	return nil
}
