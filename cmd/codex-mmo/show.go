package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// showSession prints a session for a person: first what it is, then a table
// for each kind of thing that belongs to it.
func (a *app) showSession(v *control.SessionView) {
	restarts := ""
	if v.Recoveries > 0 {
		restarts = plural(v.Recoveries, "time") + ", its processes were lost and replaced"
	}
	build := ""
	if !v.RuntimeCurrent && supervised(core.SessionStatus(v.Status)) {
		build = "another one than this; the session goes on with its own"
	}
	finished := ""
	if v.FinishedAt != nil {
		finished = clock(*v.FinishedAt)
	}
	a.facts(
		[2]string{"session", v.SessionID},
		[2]string{"profile", v.ProfileID + " " + v.ProfileVersion},
		[2]string{"workspace", v.Workspace},
		[2]string{"status", v.Status + meaning(v)},
		[2]string{"error", firstLine(v.Error)},
		[2]string{"root", v.RootAgent},
		[2]string{"restarts", restarts},
		[2]string{"codex", fmt.Sprintf("%s (%s)", v.Codex.Version, v.Codex.Verdict)},
		[2]string{"build", build},
		[2]string{"sandbox", v.RootPermissions},
		[2]string{"created", clock(v.CreatedAt)},
		[2]string{"finished", finished},
	)
	for _, note := range notes(v) {
		a.printf("%s\n", oneLine(note, noteRunes))
	}
	a.section([]string{"ROUTE", "STATE", "NOTE"}, routeRows(v.RouteAvailability))
	a.section([]string{"JOB", "AGENT", "MODE", "STATUS", "RESULT", "CHANGES", "RESTARTS", "NOTE"}, jobRows(v.Jobs))
	a.section(nativeHeader, nativeRows(v))
	a.section([]string{"LIMIT", "IN USE", "HELD BY"}, capacityRows(v.Capacity))
	a.section([]string{"BUDGET", "LIMIT", "SPENT", "FREE FOR JOBS", "LEFT FOR ROOT", "OVERRUN", "NOTE"}, budgetRows(v.Capacity))
	a.section([]string{"PROCESS", "PID", "STATE", "WORKS FOR"}, processRows(v))
	if len(v.Usage) > 0 {
		a.printf("\n")
		a.usageTable(v.Usage)
	}
	a.section([]string{"EVIDENCE", "BYTES", "FILE"}, evidenceRows(v.Evidence))
}

// notes are what somebody must know of a session beside its status.
func notes(v *control.SessionView) (list []string) {
	if v.Tainted {
		list = append(list, "tainted: it delegates and integrates no more: "+strings.Join(v.TaintReasons, "; "))
	}
	if v.ResumeError != "" {
		list = append(list, "it could not be taken up: "+v.ResumeError)
	}
	if v.CompactError != "" {
		list = append(list, "its root's context could not be shortened: "+v.CompactError)
	}
	return list
}

// section prints a table with an empty line before it, or nothing when it has
// no rows.
func (a *app) section(header []string, rows [][]string) {
	if len(rows) > 0 {
		a.printf("\n")
		a.table(header, rows)
	}
}

// meaning says a session's status in words, where the word alone does not.
func meaning(v *control.SessionView) string {
	if v.Kind == supervisor.KindAmbient {
		return clientMeaning(v)
	}
	switch core.SessionStatus(v.Status) {
	case core.SessionStarting:
		return ": the root is not there yet"
	case core.SessionRunning, core.SessionDetached:
		switch {
		case v.Deferred:
			return ": the root has answered; the session waits for jobs at work"
		case v.ActiveTurnID != "":
			return ": the root is at work"
		case v.Kind == "interactive":
			return ": the root waits for you (codex-mmo attach " + v.SessionID + ")"
		}
	case core.SessionSuspended:
		return ": it can't go on by itself; take it up with codex-mmo continue " + v.SessionID + " or end it with codex-mmo stop " + v.SessionID
	case core.SessionPaused:
		return ": take it up with codex-mmo continue " + v.SessionID + " or codex-mmo resume " + v.SessionID
	case core.SessionFinishing:
		return ": the work is done, processes are being ended"
	case core.SessionCancelling:
		return ": processes are being ended"
	}
	return ""
}

// clientMeaning is meaning for a session that an MCP client leads.
func clientMeaning(v *control.SessionView) string {
	switch {
	case v.Client != nil:
		return fmt.Sprintf(": led by the MCP client %s (process %d)", orDash(v.Client.Name), v.Client.PID)
	case v.Status == string(core.SessionDetached), v.Status == string(core.SessionPaused), v.Status == string(core.SessionSuspended):
		return ": its MCP client has left; the next one of its team in its workspace goes on with it, or codex-mmo mcp --session " + v.SessionID
	}
	return ""
}

// routeRows lists the routes when one of them can't be used; routes that all
// work are no news.
func routeRows(routes map[string]control.RouteAvailability) (rows [][]string) {
	missing := false
	for _, id := range slices.Sorted(maps.Keys(routes)) {
		state := "available"
		if r := routes[id]; !r.Available {
			state, missing = "unavailable", true
		}
		rows = append(rows, []string{id, state, orDash(firstLine(routes[id].Reason))})
	}
	if !missing {
		return nil
	}
	return rows
}

func jobRows(jobs []control.JobView) (rows [][]string) {
	for _, j := range jobs {
		rows = append(rows, []string{
			j.JobID, j.Agent, j.Mode, j.Status, orDash(j.ResultState), orDash(changes(j.Patch)),
			fmt.Sprint(j.RecoveryAttempts), orDash(firstLine(j.Error, j.Warning, j.CancelReason)),
		})
	}
	return rows
}

// changes sums up what a writer changed, in a few words.
func changes(p *control.PatchView) string {
	if p == nil {
		return ""
	}
	parts := []string{plural(p.TotalPaths, "file")}
	if p.TotalPaths == 1 && len(p.ChangedPaths) == 1 {
		parts[0] = oneLine(p.ChangedPaths[0], noteRunes)
	}
	if n := len(p.FlaggedPaths); n > 0 {
		parts = append(parts, fmt.Sprintf("%d flagged", n))
	}
	if n := len(p.RefusedPaths); n > 0 {
		parts = append(parts, fmt.Sprintf("%d refused", n))
	}
	if p.Integrated {
		parts = append(parts, "in the workspace")
	}
	return strings.Join(parts, ", ")
}

func processRows(v *control.SessionView) (rows [][]string) {
	agents := map[string]string{} // agent run ref -> its agent
	for _, j := range v.Jobs {
		agents[j.AgentRunRef] = j.Agent
	}
	for _, p := range v.Processes {
		rows = append(rows, []string{p.Role, fmt.Sprint(p.PID), alive(p.Alive), worksFor(p, v, agents)})
	}
	return rows
}

// worksFor names the owner of a process as the other tables do. The root is
// the one agent that has no job.
func worksFor(p control.ProcessView, v *control.SessionView, agents map[string]string) string {
	switch {
	case p.Owner == v.SessionID:
		return "the session"
	case p.Role == "gateway":
		return "all sessions with these routes"
	case agents[p.Owner] != "":
		return agents[p.Owner]
	}
	return v.RootAgent
}

func evidenceRows(list []control.EvidenceView) (rows [][]string) {
	for _, e := range list {
		rows = append(rows, []string{e.State, fmt.Sprint(e.Size), e.Path})
	}
	return rows
}

func alive(ok bool) string {
	if ok {
		return "alive"
	}
	return "gone"
}
