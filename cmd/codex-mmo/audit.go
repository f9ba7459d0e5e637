package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// detailRunes bounds a row's details in code points; --json has all of them.
const detailRunes = 400

func (a *app) auditCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "audit SESSION",
		Short: "Show who did what in a session, in order",
		Long:  "audit prints the session's audit trail. Each row was written before the act that it names.",
		Args:  exactArgs("SESSION"),
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
			all := control.AuditResponse{Rows: []control.AuditView{}}
			err = a.withStore(ctx, f, func(st *store.Store) error {
				for more := true; more; {
					after := int64(0)
					if n := len(all.Rows); n > 0 {
						after = all.Rows[n-1].Seq
					}
					page, err := supervisor.ReadAudit(ctx, st, rec.SessionID, control.AuditRequest{AfterSeq: after})
					if err != nil {
						return err
					}
					all.Rows, more = append(all.Rows, page.Rows...), page.More
				}
				return nil
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(all)
			}
			var rows [][]string
			for _, r := range all.Rows {
				details, err := json.Marshal(r.Details)
				if err != nil || len(r.Details) == 0 {
					details = nil
				}
				rows = append(rows, []string{clock(r.At), r.Event, orDash(r.Caller), orDash(r.JobID), oneLine(string(details), detailRunes)})
			}
			a.table([]string{"TIME", "EVENT", "BY", "JOB", "DETAILS"}, rows)
			return nil
		},
	}
}
