package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

func (a *app) mcpCmd() *cobra.Command {
	var o sessionOptions
	var session string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a team's tools over MCP on stdin and stdout",
		Long: "mcp is an MCP server on stdin and stdout. With --profile, any MCP client that starts it is the root of that\n" +
			"team: it spawns the team's workers and reads their results. The session begins with the first job. When the\n" +
			"client ends, the workers go on; its next start in the same folder takes the session up again.\n" +
			"Without --profile it is what the generated Codex homes of a team start: its environment then says which session\n" +
			"and agent it serves. It ends with its input or its parent.",
		Example: "  codex mcp add mmo -- codex-mmo mcp --profile codex-harness-team\n" +
			"  claude mcp add mmo -- codex-mmo mcp --profile codex-harness-team\n" +
			"  codex-mmo mcp --session SESSION               # go on with this one",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.mcpConfig(o, session, fresh)
			if err != nil {
				return err
			}
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
	cmd.Flags().StringVar(&o.profile, "profile", "", "the team that the client leads")
	cmd.Flags().StringVar(&session, "session", "", "go on with this session, whose client has ended")
	cmd.Flags().BoolVar(&fresh, "new", false, "begin a new session, even where one waits for a client")
	o.addFlags(cmd)
	return cmd
}

// mcpConfig says whom the server serves: the client that started it, or the
// agent that the environment names.
func (a *app) mcpConfig(o sessionOptions, session string, fresh bool) (mcpserver.Config, error) {
	if o.profile == "" && o.snapshot == "" && session == "" {
		cfg, _ := mcpserver.FromEnv(a.getenv) // what is missing is told to the client, in cfg.Refusal
		return cfg, nil
	}
	leader, err := a.newLead(o, session, fresh)
	return mcpserver.Config{Lead: leader}, err
}
