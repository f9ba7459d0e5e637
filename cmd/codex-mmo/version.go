package main

import (
	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// version is stamped by the build; a plain `go build` leaves it as it is.
var version = "dev"

// build names this build to other processes and in records.
func build() string { return "codex-mmo " + version }

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build and of the interfaces it speaks",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]any{
					"version": version, "state_package": store.StatePackage, "control_api": control.APIVersion, "plugin_protocol": 1,
				})
			}
			a.printf("codex-mmo %s (state %s, control API %d, plugin protocol 1)\n", version, store.StatePackage, control.APIVersion)
			return nil
		},
	}
}
