package sdk_test

import (
	"context"
	"fmt"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// echo serves one model; a real gateway implements the other calls too.
type echo struct {
	gatewaypb.UnimplementedGatewayServer
}

func (echo) Models(context.Context, *gatewaypb.ModelsRequest) (*gatewaypb.ModelsResponse, error) {
	return &gatewaypb.ModelsResponse{Models: []*gatewaypb.RouteModel{{Key: "echo-1"}}}, nil
}

// A gateway plugin is a main of a few lines. Started by hand it says what it
// is.
func Example() {
	err := sdk.ServeGateway(sdk.Info{Name: "echo", Version: "0.1.0", Drivers: []string{"echo"}}, echo{})
	if err != nil {
		fmt.Println(err)
	}
	// Output: this program is a plugin: codex-mmo starts it, see `codex-mmo plugin --help`
}
