package sdk

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// ownWords is a gateway that answers Describe itself.
type ownWords struct {
	gatewaypb.UnimplementedGatewayServer
	answer *basepb.DescribeResponse
	err    error
}

func (g *ownWords) Describe(context.Context, *basepb.DescribeRequest) (*basepb.DescribeResponse, error) {
	return g.answer, g.err
}

// What a server says of itself holds; who it is, the SDK says.
func TestDescribeCompletesTheServersOwnWords(t *testing.T) {
	info := Info{Name: "echo", Version: "0.1.0", Drivers: []string{"echo"}, SecretNames: []string{"KEY"}}
	tests := []struct {
		name   string
		server gatewaypb.GatewayServer
		want   *basepb.DescribeResponse
	}{
		{
			"no words", &gatewaypb.UnimplementedGatewayServer{},
			&basepb.DescribeResponse{Name: "echo", Version: "0.1.0", Drivers: []string{"echo"}, SecretNames: []string{"KEY"}},
		},
		{
			"own words",
			&ownWords{answer: &basepb.DescribeResponse{Version: "0.2.0", Drivers: []string{"a", "b"}, InstanceId: "mine", Kinds: []string{"host"}}},
			&basepb.DescribeResponse{Name: "echo", Version: "0.2.0", Drivers: []string{"a", "b"}, SecretNames: []string{"KEY"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := &describedGateway{tt.server, newDescriber(info, plugins.KindGateway)}
			got, err := server.Describe(t.Context(), &basepb.DescribeRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GetProcess().GetPid() != int32(os.Getpid()) || len(got.GetInstanceId()) != 32 {
				t.Errorf("process %v, instance %q", got.GetProcess(), got.GetInstanceId())
			}
			tt.want.Kinds = []string{"gateway"}
			tt.want.ProtocolVersions = []uint32{1}
			tt.want.SdkVersion = "1.0.0"
			tt.want.GoVersion = runtime.Version()
			ignore := protocmp.IgnoreFields(&basepb.DescribeResponse{}, "instance_id", "process")
			if diff := cmp.Diff(tt.want, got, protocmp.Transform(), ignore); diff != "" {
				t.Errorf("Describe (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribePassesAnErrorOn(t *testing.T) {
	server := &describedGateway{&ownWords{err: status.Error(codes.Internal, "broken")}, newDescriber(Info{}, plugins.KindGateway)}
	if _, err := server.Describe(t.Context(), &basepb.DescribeRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("Describe = %v, want the server's error", err)
	}
}
