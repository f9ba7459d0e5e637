package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

func (a *app) stopCmd() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "stop SESSION",
		Short: "End a session and every process it started; results and evidence stay",
		Long: "stop ends the session for good: running turns are interrupted, every process of the session is ended and looked\n" +
			"for, and what was saved stays on disk. With --grace the root and the workers that are at work are asked for their\n" +
			"results first, and have that long to give them.\n\n" +
			"Exit codes: 0 everything is gone, 1 something still lives (it is named) or the session could not be stopped.",
		Args: exactArgs("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := a.stop(cmd.Context(), args[0], grace)
			if err != nil {
				return err
			}
			return a.showStop(answer)
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long those who are at work may take to give their results, e.g. 30s")
	return cmd
}

// stop ends a session. One that has ended is returned as it is.
func (a *app) stop(ctx context.Context, id string, grace time.Duration) (answer *control.StopResponse, err error) {
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	rec, err := a.readSession(ctx, f, id)
	if err != nil {
		return nil, err
	}
	over := func(rec *store.Session) error {
		a.notice("session %s is %s already", rec.SessionID, rec.Status)
		answer = &control.StopResponse{Session: *supervisor.ViewSession(rec), Survivors: []control.ProcessView{}}
		return nil
	}
	err = a.ask(ctx, f, rec, over, func(c *control.Client) (err error) {
		answer, err = c.Stop(ctx, control.Meta{}, control.StopRequest{GraceSeconds: grace.Seconds()})
		return err
	})
	return answer, err
}

// showStop prints what became of a stop. What still lives is a failure.
func (a *app) showStop(answer *control.StopResponse) error {
	if a.json {
		if err := a.printJSON(answer); err != nil {
			return err
		}
	} else {
		a.printf("session %s is %s\n", answer.Session.SessionID, answer.Session.Status)
	}
	for _, p := range answer.Survivors {
		a.notice("still alive: %s", p.Role)
	}
	if len(answer.Survivors) > 0 {
		return &exitError{code: exitFailure}
	}
	return nil
}
