package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

func (a *app) sessionsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions, newest first",
		Long: "sessions lists what the records say. It changes and starts nothing: `codex-mmo status SESSION` shows one and\n" +
			"brings it back, `codex-mmo attach SESSION` opens its screen, `codex-mmo stop SESSION` ends it.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			list, err := a.listSessions(cmd.Context(), f)
			if core.KindOf(err) == core.KindNotFound {
				list, err = nil, nil
			}
			if err != nil {
				return err
			}
			if a.json {
				views := []*control.SessionView{}
				for _, rec := range list {
					views = append(views, supervisor.ViewSession(rec))
				}
				return a.printJSON(map[string]any{"sessions": views})
			}
			if len(list) == 0 {
				a.notice("there is no session yet; start one with `codex-mmo demo` or `codex-mmo exec`")
				return nil
			}
			var rows [][]string
			for _, rec := range list {
				rows = append(rows, []string{rec.SessionID, rec.ProfileID, string(rec.Status), clock(rec.LastActiveAt), rec.Workspace})
			}
			a.table([]string{"SESSION", "PROFILE", "STATUS", "LAST ACTIVE", "WORKSPACE"}, rows)
			return nil
		},
	}
}

// listSessions reads the sessions whose records can be read, newest first.
// `codex-mmo doctor` names the others.
func (a *app) listSessions(ctx context.Context, f folders.Folders) (list []*store.Session, err error) {
	err = a.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.Sessions(store.SessionFilter{})
			return err
		})
	})
	slices.SortFunc(list, func(x, y *store.Session) int { return y.CreatedAt.Compare(x.CreatedAt) })
	return list, err
}
