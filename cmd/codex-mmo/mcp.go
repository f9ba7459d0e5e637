package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

func (a *app) mcpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve the team's tools over MCP on stdin and stdout",
		Long: "mcp is what the generated Codex homes of a team start: a thin MCP server that passes calls to the\n" +
			"session's supervisor. It is told by its environment which session and agent it serves, and ends with its\n" +
			"input or its parent.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _ := mcpserver.FromEnv(a.getenv) // what is missing is told to the client, in cfg.Refusal
			cfg.Version, cfg.In, cfg.Out, cfg.Log = build(), a.in, a.out, a.logger()
			// A server that can't watch its parent still ends with its input.
			if parent, err := process.Lookup(os.Getppid()); err == nil {
				if handle, err := process.Open(parent); err == nil {
					defer handle.Close()
					cfg.ParentGone = handle.Done()
				}
			}
			return mcpserver.Serve(cmd.Context(), cfg)
		},
	}
}
