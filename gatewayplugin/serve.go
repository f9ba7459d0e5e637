package gatewayplugin

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/spans"
	"github.com/codex-mmo/codex-mmo/plugins"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// Drivers lists the drivers that the gateway serves.
var Drivers = []string{driverResponses, driverChat, driverAnthropic, driverOffline}

// listenerFD is where the starter of the gateway passes the listener: the
// first descriptor after the standard ones.
const listenerFD = 3

// Serve runs the gateway as a plugin until it is stopped. It is the whole of
// the process that calls it.
func Serve() error {
	info := sdk.Info{
		Name: "gateway", Version: buildVersion(), Drivers: Drivers,
		Capabilities: []string{"streaming", "telemetry"},
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	gateway := New(&Options{
		Log: log, Spans: openSpans(log),
		ListenerSocket: filepath.Join(os.Getenv(plugins.EnvDir), plugins.ListenerSocket),
	})
	info.Stop = gateway.Ended()
	return sdk.ServeGateway(info, gateway)
}

// openSpans exports spans when the environment asks for it. That it can't is no
// reason not to serve.
func openSpans(log *slog.Logger) *spans.Recorder {
	if !spans.Configured(os.Getenv) {
		return nil
	}
	recorder, err := spans.Open(context.Background(), &spans.Options{Log: log})
	if err != nil {
		log.Error("no spans are exported", "err", err)
		return nil
	}
	return recorder
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "0.0.0"
}

func inheritedListener() (net.Listener, error) {
	file := os.NewFile(listenerFD, "gateway listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "take over the listener on file descriptor %d: %w", listenerFD, err).
			WithRemedy("start the gateway through codex-mmo, which passes one")
	}
	return listener, nil
}

func watchProcess(id process.Identity) (<-chan struct{}, func(), error) {
	handle, err := process.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return handle.Done(), func() { _ = handle.Close() }, nil
}

func identity(p *basepb.Process) process.Identity {
	return process.Identity{
		PID: int(p.GetPid()), StartToken: p.GetStartToken(), BootID: p.GetBootId(),
		PGID: int(p.GetPgid()), SID: int(p.GetSid()), Command: p.GetCommand(),
	}
}

func processMessage(id process.Identity) *basepb.Process {
	return &basepb.Process{
		Pid: int32(id.PID), StartToken: id.StartToken, BootId: id.BootID,
		Pgid: int32(id.PGID), Sid: int32(id.SID), Command: id.Command,
	}
}
