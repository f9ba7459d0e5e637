package sdk_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/plugins"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// Whole plugins are tested where they are started, in core/pluginhost.
func TestServeNeedsTheInstanceFolder(t *testing.T) {
	t.Setenv(plugins.Handshake.MagicCookieKey, plugins.Handshake.MagicCookieValue)
	t.Setenv(plugins.EnvDir, "")
	err := sdk.ServeHost(sdk.Info{Name: "echo", Version: "0.1.0"}, hostpb.UnimplementedHostServer{})
	if err == nil || !strings.Contains(err.Error(), "MMO_PLUGIN_DIR is not set") {
		t.Errorf("ServeHost = %v, want that the folder is missing", err)
	}
}
