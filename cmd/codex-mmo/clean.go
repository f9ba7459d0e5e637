package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

func (a *app) cleanCmd() *cobra.Command {
	in := supervisor.CleanInput{}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove sessions and jobs that ended long ago",
		Long: "clean removes the files and records of sessions that have ended and were not active for --session-days, and of\n" +
			"jobs of ended sessions after --job-days. It never takes a session at work or at rest, a result that nobody has\n" +
			"read (unless --unread), or a working tree that was not captured whole; these are named. The audit trail stays.",
		Example: "  codex-mmo clean --dry-run                # what would go\n  codex-mmo clean --session-days 7",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.JobDays < 0 || in.SessionDays < 0 {
				return usagef("--job-days and --session-days must not be negative")
			}
			if err := a.outside(); err != nil {
				return err
			}
			f, err := a.folders()
			if err != nil {
				return err
			}
			in.Folders, in.Now = f, time.Now()
			var out *supervisor.Cleaned
			err = a.withStore(cmd.Context(), f, func(st *store.Store) error {
				out, err = supervisor.Clean(cmd.Context(), st, &in)
				return err
			})
			if core.KindOf(err) == core.KindNotFound && out == nil {
				out, err = &supervisor.Cleaned{Kept: []supervisor.Kept{}}, nil // there is nothing yet
			}
			if err != nil {
				return err
			}
			return a.showCleaned(out, in.DryRun)
		},
	}
	cmd.Flags().IntVar(&in.SessionDays, "session-days", 30, "remove sessions that were not active for more than this many days")
	cmd.Flags().IntVar(&in.JobDays, "job-days", 30, "remove jobs of ended sessions after this many days")
	cmd.Flags().BoolVar(&in.Unread, "unread", false, "also results that nobody has read")
	cmd.Flags().BoolVar(&in.DryRun, "dry-run", false, "only say what would go")
	return cmd
}

func (a *app) showCleaned(out *supervisor.Cleaned, dry bool) error {
	if a.json {
		return a.printJSON(out)
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	a.printf("%s %s and %s\n", verb, plural(out.Sessions, "session"), plural(out.Jobs, "job"))
	for _, k := range out.Kept {
		a.notice("kept %s: %s", k.ID, k.Why)
	}
	return nil
}
