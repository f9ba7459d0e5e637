package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/smoke"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// exitWall is the exit code of a session that took too long, as that of
// timeout(1).
const exitWall = 124

// smokeOptions are what a smoke test is to try.
type smokeOptions struct {
	session     sessionOptions
	rootOnly    bool
	workersOnly bool
	wall        time.Duration
}

// smokeRow is what became of one agent.
type smokeRow struct {
	Agent   string `json:"agent"`
	Backend string `json:"backend"` // root, mcp, native
	Marker  bool   `json:"marker_present"`
	Note    string `json:"note,omitempty"`

	marker string // that it is asked to say
	call   string // the arguments with which the root is to start it
}

// smokeCleanup is how a session that did not end by itself was ended.
type smokeCleanup struct {
	Mode   string `json:"mode"`   // graceful_stop
	Result string `json:"result"` // status of the session afterwards
}

// smokeResult is what `smoke --json` prints.
type smokeResult struct {
	Passed     bool          `json:"passed"`
	SessionID  string        `json:"session_id"`
	RootStatus string        `json:"root_status"` // of the session; harness_wall_detached: it took too long
	ExitCode   int           `json:"exit_code"`   // of the root's run
	Results    []*smokeRow   `json:"results"`
	Cleanup    *smokeCleanup `json:"cleanup,omitempty"`
}

func (a *app) smokeCmd() *cobra.Command {
	var o smokeOptions
	cmd := &cobra.Command{
		Use:   "smoke [PROFILE]",
		Short: "Try a team: have the root and each agent that it starts say a word of their own",
		Long: "smoke runs one session in which the root starts every agent that it may, as a job or as a native agent, and asks\n" +
			"each for a word that was made for it. An agent passes when it has said its word itself. The models are asked for\n" +
			"real: it costs a few requests for each agent. A session that does not end within --wall, or that waits for a\n" +
			"person, is stopped, and the test has failed.\n\n" +
			"Exit codes: 0 all have passed, 1 somebody has not, 2 wrong command line.",
		Example: "  codex-mmo smoke adaptive-engineering --workers-only\n  codex-mmo smoke ./my-team --bind lead=small --json",
		Args:    atMostOne("PROFILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.session.profile = args[0]
			}
			out, err := a.smoke(cmd.Context(), &o)
			if err != nil {
				return err
			}
			return a.reportSmoke(out)
		},
	}
	o.session.addFlags(cmd)
	cmd.Flags().BoolVar(&o.rootOnly, "root-only", false, "try the root alone")
	cmd.Flags().BoolVar(&o.workersOnly, "workers-only", false, "do not ask the root for a word of its own")
	cmd.Flags().DurationVar(&o.wall, "wall", 10*time.Minute, "how long the session may take")
	return cmd
}

func (a *app) smoke(ctx context.Context, o *smokeOptions) (*smokeResult, error) {
	switch {
	case o.rootOnly && o.workersOnly:
		return nil, usagef("--root-only and --workers-only cannot be combined")
	case o.wall <= 0:
		return nil, usagef("--wall must be longer than nothing, not %s", o.wall)
	}
	if err := a.outside(); err != nil {
		return nil, err
	}
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	in, err := a.createInput(f, &o.session, "", "noninteractive")
	if err != nil {
		return nil, err
	}
	snap, err := supervisor.Team(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &smokeResult{Results: smokeRows(snap, o)}
	rec, err := a.create(ctx, f, &o.session, smokePrompt(out.Results), "noninteractive")
	if err != nil {
		return nil, err
	}
	out.SessionID = rec.SessionID
	if err := a.runSmoke(ctx, f, rec, o.wall, out); err != nil {
		return nil, err
	}
	err = a.judge(ctx, f, out)
	return out, err
}

// smokeRows lists who is tried, each with a word of its own.
func smokeRows(snap *profile.Snapshot, o *smokeOptions) []*smokeRow {
	rows := []*smokeRow{}
	if !o.workersOnly {
		rows = append(rows, &smokeRow{Agent: snap.RootAgent, Backend: "root", marker: newMarker()})
	}
	if o.rootOnly {
		return rows
	}
	for _, id := range snap.Order {
		agent := snap.Agents[id]
		if !slices.Contains(snap.Agents[snap.RootAgent].CanSpawn, id) {
			continue
		}
		row := &smokeRow{Agent: id, Backend: profile.BackendMCP, marker: newMarker()}
		task := fmt.Sprintf("This is a test of whether you can be reached. Change nothing and look at nothing. Give your answer at once, with the word %s in it.", row.marker)
		args := map[string]any{"agent": id, "task": task}
		switch {
		case !slices.Contains(agent.Backends, profile.BackendMCP):
			row.Backend, args = profile.BackendNative, map[string]any{"agent_type": id, "message": task}
		case agent.Trust == profile.TrustLow:
			delete(args, "task")
			args["literal_task"] = map[string]any{"operation": "summarize_supplied", "text": "The word of the day is " + row.marker + ".", "max_points": 1}
		}
		if row.Backend == profile.BackendMCP && len(agent.TaskKinds) > 0 {
			args["task_kind"] = agent.TaskKinds[0]
		}
		text, err := json.Marshal(args)
		if err != nil {
			panic("smoke: " + err.Error()) // strings and one number
		}
		row.call = string(text)
		rows = append(rows, row)
	}
	return rows
}

func newMarker() string {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // it never fails
	return "SMOKE-" + hex.EncodeToString(raw)
}

// smokePrompt tells the root what to do.
func smokePrompt(rows []*smokeRow) string {
	var b strings.Builder
	b.WriteString("This is a smoke test of your team. Do exactly what follows, and nothing else.\n")
	answer := "done"
	for _, row := range rows {
		switch row.Backend {
		case profile.BackendMCP:
			fmt.Fprintf(&b, "- Call agent_spawn with exactly these arguments: %s\n", row.call)
		case profile.BackendNative:
			fmt.Fprintf(&b, "- Start a native agent: call spawn_agent with exactly these arguments: %s\n", row.call)
		default:
			answer = row.marker
		}
	}
	fmt.Fprintf(&b, "Then wait until all that you started have ended, and read each result. Whatever they say, answer with the word %s and nothing else.\n", answer)
	return b.String()
}

// runSmoke follows the session to its end, and ends it when it does not by itself.
func (a *app) runSmoke(ctx context.Context, f folders.Folders, rec *store.Session, wall time.Duration, out *smokeResult) error {
	view, walled, err := a.followFor(ctx, f, rec, wall)
	if err != nil {
		return launchError(err, rec)
	}
	out.RootStatus, out.ExitCode = view.Status, exitCode(core.SessionStatus(view.Status))
	if core.SessionStatus(view.Status).Terminal() {
		return nil
	}
	if walled {
		out.RootStatus, out.ExitCode = wallDetached, exitWall
	}
	stopped, err := a.stop(ctx, rec.SessionID, 0)
	if err != nil {
		return err
	}
	out.Cleanup = &smokeCleanup{Mode: "graceful_stop", Result: stopped.Session.Status}
	return nil
}

// judge looks on the disk for who has said his word.
func (a *app) judge(ctx context.Context, f folders.Folders, out *smokeResult) error {
	rec, err := a.readSession(ctx, f, out.SessionID)
	if err != nil {
		return err
	}
	view, err := a.storedView(ctx, f, rec)
	if err != nil {
		return err
	}
	out.Passed = out.ExitCode == 0
	for _, row := range out.Results {
		if row.Marker, err = said(f, view, row); err != nil {
			row.Note = err.Error()
		}
		out.Passed = out.Passed && row.Marker
	}
	return nil
}

// said reports whether an agent of the row's role has said its word.
func said(f folders.Folders, view *control.SessionView, row *smokeRow) (bool, error) {
	root := filepath.Join(f.SessionDir(view.SessionID), "root-events.jsonl")
	switch row.Backend {
	case profile.BackendMCP:
		for _, j := range view.Jobs {
			if j.Agent != row.Agent || j.Status != string(core.JobCompleted) {
				continue
			}
			if ok, err := saidIn(filepath.Join(f.JobDir(j.JobID), "events.jsonl"), j.ThreadID, row.marker); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case profile.BackendNative:
		for _, n := range view.NativeRuns {
			if n.Agent != row.Agent {
				continue
			}
			if ok, err := saidIn(root, n.ThreadID, row.marker); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	return saidIn(root, view.RootThreadID, row.marker)
}

func saidIn(path, thread, marker string) (bool, error) {
	events, err := os.Open(path)
	if err != nil {
		return false, core.Errorf(core.KindOS, "reading the event log: %w", err)
	}
	defer events.Close()
	return smoke.Said(events, thread, marker)
}

func (a *app) reportSmoke(out *smokeResult) error {
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		rows := [][]string{}
		for _, row := range out.Results {
			verdict := "passed"
			if !row.Marker {
				verdict = "FAILED"
			}
			rows = append(rows, []string{row.Agent, row.Backend, verdict, orDash(row.Note)})
		}
		a.table([]string{"AGENT", "BACKEND", "VERDICT", "NOTE"}, rows)
		if out.Cleanup != nil {
			a.printf("\nthe session was %s and had to be stopped; it is %s\n", out.RootStatus, out.Cleanup.Result)
		}
	}
	if !out.Passed {
		a.notice("see what they said: codex-mmo status %s", out.SessionID)
		return &exitError{code: exitFailure}
	}
	return nil
}
