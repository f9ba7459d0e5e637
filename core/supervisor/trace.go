package supervisor

import (
	"context"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/trace"
)

// Trace reads a page of an agent's event log.
func (s *Supervisor) Trace(ctx context.Context, call control.Call, r control.TraceRequest) (*control.TraceResponse, error) {
	t, err := s.controlTarget(ctx, call, control.VerbTrace, r.JobID, r.AgentRunRef)
	if err != nil {
		return nil, err
	}
	page, err := trace.Read(s.trailOf(t.jobID), trace.Window{Cursor: r.Cursor, Limit: r.Limit, MaxBytes: r.MaxBytes})
	if err != nil {
		return nil, err
	}
	return &control.TraceResponse{AgentRunRef: t.ref, Records: page.Records, NextCursor: page.Next, AtEnd: page.AtEnd, Untrusted: true}, nil
}

// TraceRecord reads a part of one record of an agent's event log.
func (s *Supervisor) TraceRecord(ctx context.Context, call control.Call, r control.TraceRecordRequest) (*control.TraceRecordResponse, error) {
	t, err := s.controlTarget(ctx, call, control.VerbTrace, r.JobID, r.AgentRunRef)
	if err != nil {
		return nil, err
	}
	part, err := trace.ReadRecord(s.trailOf(t.jobID), r.RecordCursor, r.Cursor, r.MaxChars)
	if err != nil {
		return nil, err
	}
	return &control.TraceRecordResponse{
		AgentRunRef: t.ref, RecordCursor: r.RecordCursor, Content: part.Content, NextCursor: part.Next,
		TotalChars: part.TotalChars, FilteredSHA256: part.SHA256, Untrusted: true,
	}, nil
}

// trailOf is where the event log of a job's agent is; of none: the root's.
func (s *Supervisor) trailOf(job string) string {
	if job == "" {
		return filepath.Join(s.cfg.Folders.SessionDir(s.session), "root-events.jsonl")
	}
	return filepath.Join(s.cfg.Folders.JobDir(job), "events.jsonl")
}
