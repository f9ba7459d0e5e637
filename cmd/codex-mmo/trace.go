package main

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/trace"
)

// jobTraceCmd reads the event log of a job, whether or not its session lives.
func (a *app) jobTraceCmd() *cobra.Command {
	window, record := trace.Window{}, -1
	cmd := &cobra.Command{
		Use:   "trace JOB",
		Short: "Read what a job did, event by event",
		Long: "trace prints a line for each event of a job: what its engine was told and what it answered. Private reasoning is\n" +
			"not shown. --record prints one event in full; with --json a page of events comes whole, and next_cursor says where\n" +
			"the next one begins.",
		Example: "  codex-mmo job trace JOB\n  codex-mmo job trace JOB --record 12\n  codex-mmo job trace JOB --json --cursor 40 --limit 20",
		Args:    exactArgs("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			job, err := a.readJob(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			path := filepath.Join(f.JobDir(job.JobID), "events.jsonl")
			switch {
			case record >= 0:
				return a.showRecord(path, job, record)
			case a.json:
				return a.printPage(path, job, window)
			}
			return a.showTrace(cmd.Context(), path, window)
		},
	}
	cmd.Flags().IntVar(&window.Cursor, "cursor", 0, "the first event, counted from 0")
	cmd.Flags().IntVar(&window.Limit, "limit", 0, "how many events at most; without it all, with --json a page")
	cmd.Flags().IntVar(&record, "record", -1, "one event in full, by its number")
	return cmd
}

// printPage prints a page as the tool agent_trace has it.
func (a *app) printPage(path string, job *store.Job, w trace.Window) error {
	page, err := trace.Read(path, w)
	if err != nil {
		return err
	}
	return a.printJSON(control.TraceResponse{AgentRunRef: job.AgentRef, Records: page.Records, NextCursor: page.Next, AtEnd: page.AtEnd, Untrusted: true})
}

func (a *app) showRecord(path string, job *store.Job, record int) error {
	whole, digest := strings.Builder{}, ""
	for cursor := 0; ; {
		part, err := trace.ReadRecord(path, record, cursor, 0)
		if err != nil {
			return err
		}
		whole.WriteString(part.Content)
		digest = part.SHA256
		if part.Next == nil {
			break
		}
		cursor = *part.Next
	}
	if !a.json {
		a.printf("%s\n", whole.String())
		return nil
	}
	return a.printJSON(control.TraceRecordResponse{
		AgentRunRef: job.AgentRef, RecordCursor: record, Content: whole.String(),
		TotalChars: len([]rune(whole.String())), FilteredSHA256: digest, Untrusted: true,
	})
}

// showTrace prints a line for each event, page after page.
func (a *app) showTrace(ctx context.Context, path string, w trace.Window) error {
	for left := w.Limit; ctx.Err() == nil; {
		w.Limit = 0
		if left > 0 {
			w.Limit = min(left, trace.MaxLimit)
		}
		page, err := trace.Read(path, w)
		if err != nil {
			return err
		}
		for i, record := range page.Records {
			a.printf("%s\n", lineOf(w.Cursor+i, record))
		}
		if page.AtEnd || left > 0 && left == len(page.Records) {
			break
		}
		left, w.Cursor = left-len(page.Records), page.Next
	}
	return ctx.Err()
}

// lineRunes bounds what a line of a trace says of an event.
const lineRunes = 120

// lineOf is an event in a line: its number, when, who spoke, and of what.
func lineOf(number int, record json.RawMessage) string {
	var e struct {
		RecordedAt string `json:"recorded_at"`
		Direction  string `json:"direction"`
		Malformed  string `json:"malformed_event"`
		Truncated  bool   `json:"trace_record_truncated"`
		Method     string `json:"method"` // of a stub
		Message    struct {
			Method string `json:"method"`
			Params struct {
				Item struct {
					Type    string `json:"type"`
					Text    string `json:"text"`
					Command string `json:"command"`
					Tool    string `json:"tool"`
				} `json:"item"`
				Turn struct {
					Status string `json:"status"`
				} `json:"turn"`
			} `json:"params"`
		} `json:"message"`
	}
	_ = json.Unmarshal(record, &e) // what can't be read is left out
	method := cmp.Or(e.Message.Method, e.Method, "answer")
	item := e.Message.Params.Item
	about := cmp.Or(item.Text, item.Command, item.Tool, e.Message.Params.Turn.Status)
	switch {
	case e.Malformed != "":
		method, about = "no JSON", e.Malformed
	case e.Truncated:
		about = "long: see --record " + strconv.Itoa(number)
	}
	at := e.RecordedAt
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = clock(t)
	}
	words := []string{strconv.Itoa(number), at, e.Direction, method, item.Type, about}
	return oneLine(strings.Join(words, "  "), lineRunes)
}
