package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status [SESSION]",
		Short: "Show a session with its jobs and processes, and bring it back if its supervisor is gone",
		Long: "status shows the newest session, or the one that is named: what the root and each worker do, which\n" +
			"processes work for them, the tokens by agent and route, and where the evidence lies. A session that should\n" +
			"be at work and has no supervisor (after a crash or a reboot) is brought back first.\n\n" +
			"RESULT says what the lead did with a worker's answer: unread, read, accepted, rejected or integrated. CHANGES\n" +
			"is what a writer changed in a working tree of its own; it is in your workspace once it says so. RESTARTS\n" +
			"counts how often lost processes were replaced.\n\n" +
			"LIMIT shows what the session's agents share with each other and with other sessions, and who holds it; BUDGET\n" +
			"what may be spent: FREE FOR JOBS is what no job has a claim on, LEFT FOR ROOT includes what is kept for its\n" +
			"final report, OVERRUN is what answers cost beyond their limit.",
		Args: atMostOne("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			view, err := a.status(cmd.Context(), f, id)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(view)
			}
			a.showSession(view)
			return nil
		},
	}
}

// atMostOne checks the arguments of a verb that works on the newest one when
// none is named.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("`%s` takes one %s or none, got %d arguments: see `%[1]s --help`", cmd.CommandPath(), name, len(args))
		}
		return nil
	}
}

// status returns the public record of a session: its supervisor's, or the
// store's when none is needed.
func (a *app) status(ctx context.Context, f folders.Folders, id string) (*control.SessionView, error) {
	rec, err := a.pick(ctx, f, id)
	if err != nil {
		return nil, err
	}
	if !supervised(rec.Status) {
		return a.storedView(ctx, f, rec)
	}
	client, err := a.bringBack(ctx, f, rec)
	if err != nil {
		return nil, err
	}
	view, err := client.Session(ctx, control.Meta{})
	if err != nil && core.KindOf(err) == core.KindUnavailable { // it ended between the two
		if rec, err = a.readSession(ctx, f, rec.SessionID); err == nil && !supervised(rec.Status) {
			return a.storedView(ctx, f, rec)
		}
	}
	return view, err
}

// pick reads the named session, or the newest one.
func (a *app) pick(ctx context.Context, f folders.Folders, id string) (*store.Session, error) {
	if id != "" {
		return a.readSession(ctx, f, id)
	}
	list, _, err := a.lastActive(ctx, f, listLimit)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, core.Errorf(core.KindNotFound, "there is no session yet").WithRemedy("start one with `codex-mmo demo` or `codex-mmo exec`")
	}
	return list[0], nil
}

// storedView composes the public record of a session without its supervisor.
func (a *app) storedView(ctx context.Context, f folders.Folders, rec *store.Session) (view *control.SessionView, err error) {
	err = a.withStore(ctx, f, func(st *store.Store) error {
		view, err = supervisor.StoredView(ctx, st, f, rec.SessionID)
		return err
	})
	return view, err
}
