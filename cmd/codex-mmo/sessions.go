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

// listLimit is how many sessions are listed when nothing else is asked for.
const listLimit = 50

func (a *app) sessionsCmd() *cobra.Command {
	limit := listLimit
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions, the last active first",
		Long: "sessions lists what the records say. It changes and starts nothing: `codex-mmo status SESSION` shows one and\n" +
			"brings it back, `codex-mmo attach SESSION` opens its screen, `codex-mmo stop SESSION` ends it.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit must be 0 (all) or more, not %d", limit)
			}
			return a.sessions(cmd.Context(), limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", listLimit, "list at most so many; 0 lists all")
	return cmd
}

func (a *app) sessions(ctx context.Context, limit int) error {
	f, err := a.folders()
	if err != nil {
		return err
	}
	list, more, err := a.lastActive(ctx, f, limit)
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
		return a.printJSON(map[string]any{"sessions": views, "more": more})
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
	if more {
		a.notice("there are more: `codex-mmo sessions --limit 0` lists all, `codex-mmo clean` removes old ones")
	}
	return nil
}

// lastActive reads the sessions that were active last, at most so many (0: all),
// whose records can be read, and says whether there are more. `codex-mmo doctor`
// names the others.
func (a *app) lastActive(ctx context.Context, f folders.Folders, limit int) (list []*store.Session, more bool, err error) {
	filter := store.SessionFilter{}
	if limit > 0 {
		filter.Latest = limit + 1
	}
	err = a.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) (err error) {
			list, err = tx.Sessions(filter)
			return err
		})
	})
	slices.SortFunc(list, func(x, y *store.Session) int { return y.LastActiveAt.Compare(x.LastActiveAt) })
	if limit > 0 && len(list) > limit {
		return list[:limit], true, err
	}
	return list, false, err
}
