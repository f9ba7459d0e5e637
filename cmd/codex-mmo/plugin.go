package main

import (
	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	"github.com/codex-mmo/codex-mmo/hostplugin"
)

// pluginCmd runs this binary as one of the bundled plugins; supervisors start
// it so.
func (a *app) pluginCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Hidden: true}
	cmd.AddCommand(
		&cobra.Command{Use: "host", Args: exactArgs(), RunE: func(*cobra.Command, []string) error { return hostplugin.Serve() }},
		&cobra.Command{Use: "gateway", Args: exactArgs(), RunE: func(*cobra.Command, []string) error { return gatewayplugin.Serve() }},
	)
	return cmd
}
