package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
)

func (a *app) stopCmd() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "stop SESSION",
		Short: "End a session and every process it started; results and evidence stay",
		Long: "stop ends the session for good: running turns are interrupted (after --grace, if they have not ended by\n" +
			"themselves), every process of the session is ended and looked for, and what was saved stays on disk.",
		Args: exactArgs("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			f, err := a.folders()
			if err != nil {
				return err
			}
			rec, err := a.readSession(ctx, f, args[0])
			if err != nil {
				return err
			}
			if rec.Status.Terminal() {
				a.notice("session %s is %s already", rec.SessionID, rec.Status)
				return nil
			}
			client, err := a.bringBack(ctx, f, rec)
			if err != nil {
				return err
			}
			answer, err := client.Stop(ctx, control.Meta{}, control.StopRequest{GraceSeconds: grace.Seconds()})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer)
			}
			a.printf("session %s is %s\n", answer.Session.SessionID, answer.Session.Status)
			for _, p := range answer.Survivors {
				a.notice("still alive: %s", p.Role)
			}
			if len(answer.Survivors) > 0 {
				return &exitError{code: exitFailure}
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long running turns may take to end by themselves, e.g. 30s")
	return cmd
}
