package main

import (
	"context"
	"fmt"

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
			"be at work and has no supervisor (after a crash or a reboot) is brought back first.",
		Args: cobra.MaximumNArgs(1),
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
	list, err := a.listSessions(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, core.Errorf(core.KindNotFound, "there is no session yet").WithRemedy("start one with `codex-mmo demo` or `codex-mmo exec`")
	}
	newest := list[0]
	for _, rec := range list {
		if rec.LastActiveAt.After(newest.LastActiveAt) {
			newest = rec
		}
	}
	return newest, nil
}

// storedView composes the public record of a session without its supervisor.
func (a *app) storedView(ctx context.Context, f folders.Folders, rec *store.Session) (view *control.SessionView, err error) {
	err = a.withStore(ctx, f, func(st *store.Store) error {
		view, err = supervisor.StoredView(ctx, st, f, rec.SessionID)
		return err
	})
	return view, err
}

func (a *app) showSession(v *control.SessionView) {
	a.printf("session    %s\nprofile    %s %s\nworkspace  %s\nstatus     %s\n", v.SessionID, v.ProfileID, v.ProfileVersion, v.Workspace, v.Status)
	a.printf("codex      %s (%s)\ncreated    %s\n", v.Codex.Version, v.Codex.Verdict, clock(v.CreatedAt))
	if !v.RuntimeCurrent {
		a.printf("build      another build than this one; it goes on with its own\n")
	}
	if v.Error != "" {
		a.printf("error      %s\n", v.Error)
	}
	if len(v.Jobs) > 0 {
		a.printf("\n")
		var rows [][]string
		for _, j := range v.Jobs {
			rows = append(rows, []string{j.JobID, j.Agent, j.Mode, j.Status, orDash(j.ResultState), fmt.Sprint(j.RecoveryAttempts), orDash(firstLine(j.Error, j.Warning))})
		}
		a.table([]string{"JOB", "AGENT", "MODE", "STATUS", "RESULT", "RECOVERIES", "NOTE"}, rows)
	}
	if len(v.Processes) > 0 {
		a.printf("\n")
		var rows [][]string
		for _, p := range v.Processes {
			rows = append(rows, []string{p.Role, fmt.Sprint(p.PID), alive(p.Alive), p.Owner})
		}
		a.table([]string{"PROCESS", "PID", "STATE", "OF"}, rows)
	}
	if len(v.Usage) > 0 {
		a.printf("\n")
		a.usageTable(v.Usage)
	}
	if len(v.Evidence) > 0 {
		a.printf("\n")
		var rows [][]string
		for _, e := range v.Evidence {
			rows = append(rows, []string{e.State, fmt.Sprint(e.Size), e.Path})
		}
		a.table([]string{"EVIDENCE", "BYTES", "FILE"}, rows)
	}
}

func alive(ok bool) string {
	if ok {
		return "alive"
	}
	return "gone"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func firstLine(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
