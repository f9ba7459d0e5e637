package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// superviseCmd is how keeper and supervisor start themselves; it is not for
// people.
func (a *app) superviseCmd() *cobra.Command {
	var asSupervisor, adopt, giveUp bool
	cmd := &cobra.Command{
		Use: "supervise SESSION", Hidden: true, Args: exactArgs("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			secrets, err := supervisor.ReadSecrets()
			if err != nil {
				return err
			}
			f, err := a.folders()
			if err != nil {
				return err
			}
			if err := f.Prepare(); err != nil {
				return err
			}
			cfg := &supervisor.Config{
				Folders: f, SessionID: args[0], Build: build(), Secrets: secrets, Getenv: a.getenv, Log: a.logger(),
			}
			switch {
			case asSupervisor:
				outcome, err := supervisor.Run(cmd.Context(), cfg)
				if err == nil && outcome != supervisor.OutcomeEnded {
					err = &exitError{code: int(outcome)}
				}
				return err
			case giveUp:
				return supervisor.GiveUp(cmd.Context(), cfg)
			}
			return a.keep(cmd.Context(), cfg, adopt)
		},
	}
	cmd.Flags().BoolVar(&asSupervisor, supervisor.ArgSupervisor[2:], false, "")
	cmd.Flags().BoolVar(&adopt, supervisor.ArgAdopt[2:], false, "")
	cmd.Flags().BoolVar(&giveUp, supervisor.ArgGiveUp[2:], false, "")
	return cmd
}

func (a *app) keep(ctx context.Context, cfg *supervisor.Config, adopt bool) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	return supervisor.Keep(ctx, &supervisor.KeeperConfig{
		Folders: cfg.Folders, SessionID: cfg.SessionID, Executable: own,
		Env: a.superviseEnv(cfg.Folders), Secrets: cfg.Secrets, Adopt: adopt, Log: cfg.Log,
	})
}
