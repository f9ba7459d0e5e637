package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// nativeCmd is an order about one native agent in the root's engine.
func (a *app) nativeCmd(action, short string) *cobra.Command {
	var o agentControl
	cmd := a.sessionVerb(action+" SESSION --thread THREAD", short,
		short+". `codex-mmo root inspect SESSION` lists them with their threads. The root itself goes with its session: see\n`codex-mmo "+action+"`.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			answer, err := a.control(ctx, c, control.ControlRequest{Action: action}, &o)
			if err != nil {
				return err
			}
			return a.showControl(answer)
		})
	o.addFlags(cmd, action, false)
	_ = cmd.MarkFlagRequired("thread") // it was just added
	return cmd
}

// showNatives lists the native agents of an agent that was looked at, or the one
// that an order was about.
func (a *app) showNatives(answer *control.ControlResponse) {
	var rows [][]string
	switch {
	case answer.Native != nil:
		rows = append(rows, nativeRow("", answer.Native))
	case answer.Job != nil:
		rows = rowsOfNatives(answer.Job.JobID, answer.Job.NativeRuns)
	case answer.Session != nil:
		rows = rowsOfNatives("root", answer.Session.NativeRuns)
	}
	a.section(nativeHeader, rows)
}

var nativeHeader = []string{"NATIVE AGENT", "ROLE", "INSIDE", "STATUS", "THREAD"}

// nativeRows lists the native agents of a session, the root's first.
func nativeRows(v *control.SessionView) [][]string {
	rows := rowsOfNatives("root", v.NativeRuns)
	for _, j := range v.Jobs {
		rows = append(rows, rowsOfNatives(j.JobID, j.NativeRuns)...)
	}
	return rows
}

func rowsOfNatives(inside string, runs map[string]control.NativeView) (rows [][]string) {
	byAge := slices.SortedFunc(maps.Values(runs), func(a, b control.NativeView) int {
		return cmp.Or(a.SeenAt.Compare(b.SeenAt), cmp.Compare(a.AgentRunRef, b.AgentRunRef))
	})
	for _, n := range byAge {
		rows = append(rows, nativeRow(inside, &n))
	}
	return rows
}

func nativeRow(inside string, n *control.NativeView) []string {
	return []string{n.AgentRunRef, orDash(n.Agent), orDash(inside), n.Status, n.ThreadID}
}
