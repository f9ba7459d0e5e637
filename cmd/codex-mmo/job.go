package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// jobCmd is the operator's way to the jobs of any session.
func (a *app) jobCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Look at jobs, tell them what to do, read, accept, reject and integrate what they made",
		Long: "job works on the jobs of any session by their ids, which `codex-mmo job list` and `codex-mmo status` show. Orders\n" +
			"take the next control revision: with --expected-revision one is refused when somebody else gave one since you looked.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobListCmd(), a.jobShowCmd(), a.jobTraceCmd(), a.jobResultCmd(), a.jobCancelCmd())
	for _, c := range append(slices.Clone(controls), jobControls...) {
		cmd.AddCommand(a.jobControlCmd(c.action, c.name, c.short, c.text))
	}
	cmd.AddCommand(
		a.jobDecisionCmd("accept", "Record that its result is good", func(ctx context.Context, c *control.Client, r control.DispositionRequest) (any, error) {
			return c.Accept(ctx, control.Meta{}, r)
		}),
		a.jobDecisionCmd("reject", "Record that its result is of no use", func(ctx context.Context, c *control.Client, r control.DispositionRequest) (any, error) {
			return c.Reject(ctx, control.Meta{}, r)
		}),
		a.jobIntegrateCmd(),
	)
	return cmd
}

// jobVerb is a command on one job, through the supervisor of its session.
func (a *app) jobVerb(use, short string, run func(ctx context.Context, c *control.Client, job *store.Job) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " JOB", Short: short, Long: short + ".", Args: exactArgs("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			job, err := a.readJob(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			rec, err := a.readSession(cmd.Context(), f, job.SessionID)
			if err != nil {
				return err
			}
			if rec.Status.Terminal() {
				return core.Errorf(core.KindRuntime, "session %s of job %s is %s: nothing changes any more", rec.SessionID, job.JobID, rec.Status).
					WithRemedy("see `codex-mmo status %s`", rec.SessionID)
			}
			client, err := a.bringBack(cmd.Context(), f, rec)
			if err != nil {
				return err
			}
			return run(cmd.Context(), client, job)
		},
	}
}

func (a *app) readJob(ctx context.Context, f folders.Folders, id string) (job *store.Job, err error) {
	if !core.ValidID(id) {
		return nil, usagef("%q is not the id of a job; see `codex-mmo job list`", id)
	}
	err = a.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) (err error) {
			job, err = tx.Job(id)
			return err
		})
	})
	return job, err
}

func (a *app) jobListCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list [SESSION]", Short: "List the jobs that have not ended, or all of them",
		Long: "list shows the jobs of one session or of all that have not ended; with --all also those that have.",
		Args: atMostOne("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			filter := store.JobFilter{}
			if len(args) == 1 {
				filter.SessionID = args[0]
			}
			var jobs []*store.Job
			err = a.withStore(cmd.Context(), f, func(st *store.Store) error {
				return st.View(cmd.Context(), func(tx *store.Tx) (err error) {
					jobs, err = tx.Jobs(filter)
					return err
				})
			})
			if core.KindOf(err) == core.KindNotFound {
				err = nil
			}
			if err != nil {
				return err
			}
			jobs = slices.DeleteFunc(jobs, func(j *store.Job) bool { return !all && j.Status.Terminal() })
			return a.showJobs(jobs)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also jobs that have ended")
	return cmd
}

func (a *app) showJobs(jobs []*store.Job) error {
	type line struct {
		JobID     string `json:"job_id"`
		SessionID string `json:"session_id"`
		Agent     string `json:"agent"`
		Mode      string `json:"mode"`
		Status    string `json:"status"`
		Result    string `json:"result_state,omitempty"`
	}
	lines, rows := []line{}, [][]string{}
	for _, j := range jobs {
		l := line{j.JobID, j.SessionID, j.Agent, j.Mode, string(j.Status), string(j.ResultState)}
		lines = append(lines, l)
		rows = append(rows, []string{l.JobID, l.Agent, l.Mode, l.Status, orDash(l.Result), l.SessionID})
	}
	if a.json {
		return a.printJSON(map[string]any{"jobs": lines})
	}
	if len(rows) == 0 {
		a.notice("there is no such job")
		return nil
	}
	a.table([]string{"JOB", "AGENT", "MODE", "STATUS", "RESULT", "SESSION"}, rows)
	return nil
}

func (a *app) jobShowCmd() *cobra.Command {
	return a.jobVerb("show", "Show a job's whole record", func(ctx context.Context, c *control.Client, job *store.Job) error {
		answer, err := c.Jobs(ctx, control.Meta{}, control.JobsRequest{JobIDs: []string{job.JobID}})
		if err != nil {
			return err
		}
		return a.printJSON(answer.Jobs[0])
	})
}

func (a *app) jobControlCmd(action, name, short string, text bool) *cobra.Command {
	var o agentControl
	cmd := a.jobVerb(name, short, func(ctx context.Context, c *control.Client, job *store.Job) error {
		answer, err := a.control(ctx, c, control.ControlRequest{Action: action, JobID: job.JobID}, &o)
		if err != nil {
			return err
		}
		return a.showControl(answer)
	})
	o.addFlags(cmd, action, text)
	return cmd
}

// jobResultCmd prints a whole result. Of a session that has not ended the reading
// is on record, as a lead's is.
func (a *app) jobResultCmd() *cobra.Command {
	return &cobra.Command{
		Use: "result JOB", Short: "Read a job's whole result", Args: exactArgs("JOB"),
		Long: "result prints what a job has given, final or partial. What a worker says is its own: check what it claims.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			job, err := a.readJob(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			rec, err := a.readSession(cmd.Context(), f, job.SessionID)
			if err != nil {
				return err
			}
			page := &control.ResultResponse{JobID: job.JobID, Status: string(job.Status), ResultKind: string(job.ResultKind), ResultState: string(job.ResultState), Untrusted: true}
			if rec.Status.Terminal() {
				err = keptResult(f, job, page)
			} else {
				page, err = a.wholeResult(cmd.Context(), f, rec, job)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(page)
			}
			a.printf("%s\n", page.Content)
			return nil
		},
	}
}

// keptResult reads the result of a session that has ended, where it was proven.
func keptResult(f folders.Folders, job *store.Job, page *control.ResultResponse) error {
	if job.Result.Name == "" {
		return core.Errorf(core.KindRuntime, "job %s is %s and has no result: %s", job.JobID, job.Status, orDash(job.Error))
	}
	raw, err := store.ReadPublished(f.JobDir(job.JobID), job.Result, 64<<20)
	page.Content, page.ContentFormat, page.TotalChars, page.SHA256 = string(raw), "text", utf8.RuneCount(raw), job.Result.SHA256
	return err
}

// wholeResult reads all pages of a result from the supervisor.
func (a *app) wholeResult(ctx context.Context, f folders.Folders, rec *store.Session, job *store.Job) (*control.ResultResponse, error) {
	c, err := a.bringBack(ctx, f, rec)
	if err != nil {
		return nil, err
	}
	var whole strings.Builder
	for cursor := 0; ; {
		page, err := c.Result(ctx, control.Meta{}, control.ResultRequest{JobID: job.JobID, Cursor: cursor, Text: true})
		if err != nil {
			return nil, err
		}
		fmt.Fprint(&whole, page.Content)
		if page.NextCursor == nil {
			page.Content, page.Cursor, page.Truncated = whole.String(), 0, false
			return page, nil
		}
		cursor = *page.NextCursor
	}
}

func (a *app) jobCancelCmd() *cobra.Command {
	var r control.CancelRequest
	cmd := a.jobVerb("cancel", "End a job for good, and with --cascade all that it spawned", func(ctx context.Context, c *control.Client, job *store.Job) error {
		r.JobID = job.JobID
		answer, err := c.Cancel(ctx, control.Meta{}, r)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(answer)
		}
		for _, j := range answer.Jobs {
			a.printf("job %s is %s\n", j.JobID, j.Status)
		}
		return nil
	})
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the records")
	cmd.Flags().BoolVar(&r.Cascade, "cascade", false, "also end all jobs that it spawned")
	return cmd
}

func (a *app) jobDecisionCmd(name, short string, decide func(context.Context, *control.Client, control.DispositionRequest) (any, error)) *cobra.Command {
	var reason string
	cmd := a.jobVerb(name, short, func(ctx context.Context, c *control.Client, job *store.Job) error {
		answer, err := decide(ctx, c, control.DispositionRequest{JobID: job.JobID, Reason: reason})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(answer)
		}
		a.printf("job %s: %sed\n", job.JobID, name)
		return nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the records")
	return cmd
}

func (a *app) jobIntegrateCmd() *cobra.Command {
	var r control.IntegrateRequest
	cmd := a.jobVerb("integrate", "Bring the changes of an accepted job into the workspace, whole or not at all", func(ctx context.Context, c *control.Client, job *store.Job) error {
		r.JobID = job.JobID
		answer, err := c.Integrate(ctx, control.Meta{}, r)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(answer)
		}
		a.printf("integrated %s:\n%s\n", plural(len(answer.ChangedPaths), "file"), strings.Join(answer.ChangedPaths, "\n"))
		return nil
	})
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the records")
	cmd.Flags().BoolVar(&r.AllowFlagged, "allow-flagged", false, "also changes to files that steer tools or agents")
	return cmd
}

// inboxCmd shows what waits for a person, over all sessions.
func (a *app) inboxCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inbox",
		Short: "Show what waits for a person, over all sessions",
		Long: "inbox lists the questions and approvals that agents wait for, oldest first. Answer one with\n" +
			"`codex-mmo answer ID --response JSON`; a root in Codex's own screen can be answered there too.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.waiting(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"waiting": list})
			}
			if len(list) == 0 {
				a.notice("nothing waits for you")
			}
			for _, w := range list {
				a.printf("%s  %s asks (%s, session %s):\n%s\n\n", w.ID, w.Agent, w.Method, w.SessionID, w.Params)
			}
			return nil
		},
	}
}

// waitingRequest is one thing that an agent waits for.
type waitingRequest struct {
	ID        string          `json:"id"` // <agent run ref>/<request id>
	SessionID string          `json:"session_id"`
	JobID     string          `json:"job_id,omitempty"`
	Agent     string          `json:"agent"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	AskedAt   string          `json:"asked_at"`

	ref, request string
}

func (a *app) waiting(ctx context.Context) ([]waitingRequest, error) {
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	list := []waitingRequest{}
	err = a.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) error {
			runs, err := tx.AgentRuns("")
			for _, run := range runs {
				for _, p := range run.Pending {
					list = append(list, waitingRequest{
						ID: run.AgentRef + "/" + p.Key, SessionID: run.SessionID, JobID: run.JobID, Agent: run.Agent, Method: p.Method,
						Params: json.RawMessage(p.Params), AskedAt: clock(p.AskedAt), ref: run.AgentRef, request: p.Key,
					})
				}
			}
			return err
		})
	})
	if core.KindOf(err) == core.KindNotFound {
		return list, nil
	}
	slices.SortStableFunc(list, func(a, b waitingRequest) int { return strings.Compare(a.AskedAt, b.AskedAt) })
	return list, err
}

func (a *app) answerCmd() *cobra.Command {
	o := agentControl{revision: -1}
	cmd := &cobra.Command{
		Use:     "answer ID",
		Short:   "Answer what an agent waits for, as `codex-mmo inbox` shows it",
		Long:    "answer gives an agent the answer that it waits for. One that was answered meanwhile is refused as stale.",
		Example: `  codex-mmo answer ar_1a2b3c4d/integer:7 --response '{"decision":"accept"}'`,
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.waiting(cmd.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(w waitingRequest) bool { return w.ID == args[0] })
			if i < 0 {
				return core.Errorf(core.KindRuntime, "nothing waits under %q: it was answered, or never asked", args[0]).WithRemedy("see `codex-mmo inbox`")
			}
			if o.response == "" {
				return usagef("`codex-mmo answer` needs --response: see `codex-mmo answer --help`")
			}
			f, err := a.folders()
			if err != nil {
				return err
			}
			rec, err := a.readSession(cmd.Context(), f, list[i].SessionID)
			if err != nil {
				return err
			}
			client, err := a.bringBack(cmd.Context(), f, rec)
			if err != nil {
				return err
			}
			o.request = list[i].request
			answer, err := a.control(cmd.Context(), client, control.ControlRequest{Action: control.ActionRespond, AgentRunRef: list[i].ref}, &o)
			if err != nil {
				return fmt.Errorf("answering %s: %w", args[0], err)
			}
			return a.showControl(answer)
		},
	}
	cmd.Flags().StringVar(&o.response, "response", "", `JSON object, e.g. {"answers":{"q1":{"answers":["yes"]}}} or {"decision":"accept"}`)
	return cmd
}
