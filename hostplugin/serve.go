package hostplugin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/plugins/sdk"
)

// Serve runs the host plugin until it is told to end. This process becomes the
// reaper of all below it, so that whatever the engine's commands leave behind
// stays in its reach.
func Serve() (err error) {
	if err := process.BecomeSubreaper(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reaper sync.WaitGroup
	reaper.Go(func() { process.ReapOrphans(ctx) })
	host := New()
	defer func() {
		err = errors.Join(err, host.Close())
		cancel()
		reaper.Wait()
	}()
	if err := sdk.ServeHost(Info(), host); err != nil {
		return fmt.Errorf("serving the host plugin: %w", err)
	}
	return nil
}

// Info is what this host says of itself.
func Info() sdk.Info {
	return sdk.Info{
		Name:    "codex-host",
		Version: clientVersion,
		Drivers: []string{"codex-app-server"},
		Capabilities: []string{
			"resume", "fork", "steer", "goal", "compact", "output_schema",
			"survives_controller", "survives_host",
		},
		Isolation: "permission_profile",
	}
}
