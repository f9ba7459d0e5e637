package sdk

import (
	"cmp"
	"context"
	"runtime"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Version is the version of this SDK, told in Describe.
const Version = "1.0.0"

// describer answers Describe for the server that it stands before.
type describer struct {
	info     Info
	kind     plugins.Kind
	instance string
	process  *basepb.Process
}

func newDescriber(info Info, kind plugins.Kind) *describer {
	return &describer{info: info, kind: kind, instance: newInstanceID(), process: self()}
}

// describe completes what the server itself says. own is the server's method;
// one that it does not implement says nothing.
func (d *describer) describe(
	ctx context.Context, req *basepb.DescribeRequest,
	own func(context.Context, *basepb.DescribeRequest) (*basepb.DescribeResponse, error),
) (*basepb.DescribeResponse, error) {
	answer, err := own(ctx, req)
	if status.Code(err) == codes.Unimplemented {
		answer, err = &basepb.DescribeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	answer.Name = cmp.Or(answer.Name, d.info.Name)
	answer.Version = cmp.Or(answer.Version, d.info.Version)
	answer.Isolation = cmp.Or(answer.Isolation, d.info.Isolation)
	answer.Drivers = orElse(answer.Drivers, d.info.Drivers)
	answer.Capabilities = orElse(answer.Capabilities, d.info.Capabilities)
	answer.SecretNames = orElse(answer.SecretNames, d.info.SecretNames)
	answer.Kinds = []string{string(d.kind)}
	answer.ProtocolVersions = []uint32{plugins.ProtocolVersion}
	answer.SdkVersion = Version
	answer.GoVersion = runtime.Version()
	answer.InstanceId = d.instance
	answer.Process = d.process
	return answer, nil
}

func orElse(list, otherwise []string) []string {
	if len(list) == 0 {
		return otherwise
	}
	return list
}

type describedHost struct {
	hostpb.HostServer
	describer *describer
}

// Describe implements hostpb.HostServer.
func (h *describedHost) Describe(ctx context.Context, req *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	return h.describer.describe(ctx, req, h.HostServer.Describe)
}

type describedGateway struct {
	gatewaypb.GatewayServer
	describer *describer
}

// Describe implements gatewaypb.GatewayServer.
func (g *describedGateway) Describe(ctx context.Context, req *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	return g.describer.describe(ctx, req, g.GatewayServer.Describe)
}
