package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Bounds of waits and results, in code points and bytes.
const (
	maxWaitSeconds = 1200
	previewRunes   = 4000
	defaultPage    = 8000
	maxPage        = 30_000
	maxResultBytes = 64 << 20
	maxReason      = 500
)

// readingNote tells a model that a preview is not the result.
const readingNote = "these are bounded previews; read a whole result with agent_result, page by page until next_cursor is null"

// Wait parks until every job has ended, one has changed since the revision
// that the caller saw, or one needs a decision. It holds no lock and has no
// effect, so a wait that is abandoned costs nothing.
func (s *Supervisor) Wait(ctx context.Context, call control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
	caller, err := s.checkWait(ctx, call, r)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(r.TimeoutSeconds * float64(time.Second)))
	defer timer.Stop()
	for {
		changed := s.changes()
		answer, done, err := s.waitState(r)
		if err != nil || done || r.TimeoutSeconds == 0 {
			return s.finishWait(call, caller, answer, r, !done, err)
		}
		select {
		case <-changed:
		case <-timer.C:
			answer, done, err = s.waitState(r)
			return s.finishWait(call, caller, answer, r, !done, err)
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), control.ErrDraining) {
				return nil, core.Errorf(core.KindUnavailable, "the supervisor is going down").WithRemedy("nothing is lost, call again")
			}
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Supervisor) checkWait(ctx context.Context, call control.Call, r control.WaitRequest) (caller access.Caller, err error) {
	if len(r.JobIDs) == 0 {
		return caller, core.Errorf(core.KindValue, "no job ids were given").WithRemedy("name the jobs to wait for; agent_status lists them")
	}
	if math.IsNaN(r.TimeoutSeconds) || r.TimeoutSeconds < 0 || r.TimeoutSeconds > maxWaitSeconds {
		return caller, core.Errorf(core.KindValue, "timeout_seconds %v is out of range", r.TimeoutSeconds).WithRemedy("use 0 to %d", maxWaitSeconds)
	}
	if r.AfterRevision != nil {
		exact := len(r.AfterRevision) == len(r.JobIDs)
		for _, id := range r.JobIDs {
			_, ok := r.AfterRevision[id]
			exact = exact && ok
		}
		if !exact {
			return caller, core.Errorf(core.KindValue, "after_revision must name exactly the requested jobs").
				WithRemedy("pass progress_revisions of the last answer for these jobs")
		}
	}
	for _, id := range r.JobIDs {
		var err error
		if caller, _, err = s.admitJob(ctx, call, control.VerbWait, id); err != nil {
			return caller, err
		}
	}
	return caller, nil
}

// waitState says where the jobs stand and whether the wait is over.
func (s *Supervisor) waitState(r control.WaitRequest) (*control.WaitResponse, bool, error) {
	answer := &control.WaitResponse{
		Jobs: []control.JobView{}, Unfinished: []string{}, ProgressRevisions: map[string]uint64{}, ChangedJobIDs: []string{},
	}
	attention := false
	for _, id := range r.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil {
			return nil, false, err
		}
		answer.Jobs = append(answer.Jobs, s.jobView(j))
		answer.ProgressRevisions[id] = j.Revision
		if !j.Status.Terminal() {
			answer.Unfinished = append(answer.Unfinished, id)
		}
		if seen, ok := r.AfterRevision[id]; ok && j.Revision > seen {
			answer.ChangedJobIDs = append(answer.ChangedJobIDs, id)
		}
		switch j.Status {
		case core.JobWaiting, core.JobSuspended, core.JobPaused:
			attention = true
		}
	}
	return answer, len(answer.Unfinished) == 0 || len(answer.ChangedJobIDs) > 0 || attention, nil
}

func (s *Supervisor) finishWait(call control.Call, caller access.Caller, answer *control.WaitResponse, r control.WaitRequest, timedOut bool, err error) (*control.WaitResponse, error) {
	if err != nil {
		return nil, err
	}
	answer.TimedOutWaiting = timedOut
	s.tellCaller(call, caller, answer.Jobs)
	if !r.IncludeResults {
		return answer, nil
	}
	answer.Results, answer.ResultReadingNote = map[string]control.ResultPreview{}, readingNote
	for _, id := range r.JobIDs {
		j, err := s.cachedJob(id)
		if err != nil || j.ResultKind == "" {
			continue
		}
		ref, _ := resultRef(j)
		text, err := s.resultText(j, ref)
		if err != nil {
			continue // shown by agent_result, with its reason
		}
		head, cut := slice(text, 0, previewRunes)
		answer.Results[id] = control.ResultPreview{Preview: head, Truncated: cut}
	}
	return answer, nil
}

// Result reads one page of a result and marks it read.
func (s *Supervisor) Result(ctx context.Context, call control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
	_, j, err := s.admitJob(ctx, call, control.VerbResult, r.JobID)
	if err != nil {
		return nil, err
	}
	if j.ResultKind == "" {
		return nil, core.Errorf(core.KindRuntime, "job %s is %s and has no result", j.JobID, j.Status).WithRemedy("wait for it with agents_wait")
	}
	ref, structured := resultRef(j)
	if r.Text {
		ref, structured = j.Result, false
	}
	text, err := s.resultText(j, ref)
	if err != nil {
		return nil, err
	}
	total := utf8.RuneCountInString(text)
	if r.Cursor < 0 || r.Cursor > total {
		return nil, core.Errorf(core.KindValue, "cursor %d exceeds the result length %d", r.Cursor, total).WithRemedy("begin with 0 and pass next_cursor on")
	}
	size := r.MaxChars
	if size == 0 {
		size = defaultPage
	}
	if size < 1 || size > maxPage {
		return nil, core.Errorf(core.KindValue, "max_chars %d is out of range", r.MaxChars).WithRemedy("use 1 to %d", maxPage)
	}
	if j, err = s.markRead(ctx, j); err != nil {
		return nil, err
	}
	page, more := slice(text, r.Cursor, size)
	var content any = page
	format := "text"
	if structured && !more && r.Cursor == 0 {
		content, format = json.RawMessage(strings.TrimSuffix(text, "\n")), "json"
	}
	answer := &control.ResultResponse{
		JobID: j.JobID, Status: string(j.Status), ResultKind: string(j.ResultKind), ResultState: string(j.ResultState),
		ContentFormat: format, Content: content, Cursor: r.Cursor, Truncated: more, TotalChars: total,
		SHA256: ref.SHA256, Untrusted: true, Error: j.Error,
	}
	if more {
		next := r.Cursor + utf8.RuneCountInString(page)
		answer.NextCursor = &next
	}
	return answer, nil
}

// resultRef is the file of a job's result that is read: the canonical JSON of one
// that meets its contract, else the words.
func resultRef(j *store.Job) (ref store.FileRef, structured bool) {
	if c := j.Contract; c != nil && c.Structured.Name != "" && j.ResultKind == core.ResultFinal {
		return c.Structured, true
	}
	return j.Result, false
}

// resultText reads a file of a job's result and proves that it is the published
// one.
func (s *Supervisor) resultText(j *store.Job, ref store.FileRef) (string, error) {
	raw, err := store.ReadPublished(s.cfg.Folders.JobDir(j.JobID), ref, maxResultBytes)
	return string(raw), err
}

func (s *Supervisor) markRead(ctx context.Context, j *store.Job) (*store.Job, error) {
	if j.ResultState != core.ResultUnread {
		return j, nil
	}
	err := s.updateJob(ctx, j.JobID, func(_ *store.Tx, rec *store.Job) error {
		if rec.ResultState != core.ResultUnread {
			return errUnchanged
		}
		rec.ResultState, rec.Inbox = core.ResultRead, store.InboxRead
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.cachedJob(j.JobID)
}

// slice returns up to size code points from the given one on, and whether
// more follow.
func slice(text string, from, size int) (string, bool) {
	start, end, n := len(text), len(text), 0
	for i := range text {
		if n == from {
			start = i
		}
		if n == from+size {
			end = i
			break
		}
		n++
	}
	return text[start:end], end < len(text)
}

// Cancel ends a job, with its descendants if asked. The intent is published
// before anything is ended, so that no child slips in.
func (s *Supervisor) Cancel(ctx context.Context, call control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
	if utf8.RuneCountInString(r.Reason) > maxReason {
		return nil, core.Errorf(core.KindValue, "a reason has at most %d characters", maxReason).WithRemedy("shorten it")
	}
	caller, j, err := s.admitJob(ctx, call, control.VerbCancel, r.JobID)
	if err != nil {
		return nil, err
	}
	var targets []string
	err = s.commit(ctx, func(tx *store.Tx, c *change) error {
		targets = s.cancelTargets(j, r.Cascade) // no child is admitted meanwhile: commits are one at a time
		for _, id := range targets {
			rec, err := tx.Job(id)
			if err != nil {
				return err
			}
			if rec.Status.Terminal() || rec.Status == core.JobCancelling {
				continue
			}
			err = s.audit(tx, "agent_cancelled", id, callerName(caller), map[string]any{"reason": r.Reason, "cascade": r.Cascade})
			if err != nil {
				return err
			}
			rec.Status, rec.CancelReason = core.JobCancelling, r.Reason
			if caller.Role != access.RoleOperator {
				rec.Inbox = store.InboxRead // who asked for it knows
			}
			if err := c.putJob(tx, rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.awaitCancelled(ctx, targets, r.Reason)
}

// cancelTargets lists the job and, with cascade, its descendants, deepest
// first and the job itself last.
func (s *Supervisor) cancelTargets(j *store.Job, cascade bool) []string {
	ids := []string{j.JobID}
	if !cascade {
		return ids
	}
	jobs := s.allJobs()
	for i := 0; i < len(ids); i++ {
		for _, child := range jobs {
			if child.ParentJobID == ids[i] {
				ids = append(ids, child.JobID)
			}
		}
	}
	slices.Reverse(ids)
	return ids
}

func (s *Supervisor) awaitCancelled(ctx context.Context, ids []string, reason string) (*control.CancelResponse, error) {
	var ended sync.WaitGroup
	for _, id := range ids {
		j, err := s.cachedJob(id)
		if err != nil {
			return nil, err
		}
		if j.Status != core.JobCancelling {
			continue
		}
		rec, err := s.loadRun(ctx, j.AgentRef) // one that was admitted just now has no actor yet
		if err != nil {
			return nil, err
		}
		ended.Go(func() { s.killRun(rec, &killReason{status: core.JobCancelled, text: reason}) })
	}
	ended.Wait()
	answer := &control.CancelResponse{Jobs: []control.JobView{}}
	for _, id := range ids {
		j, err := s.cachedJob(id)
		if err != nil {
			return nil, err
		}
		answer.Jobs = append(answer.Jobs, s.jobView(j))
		if survivors := s.runNow(j.AgentRef).Survivors; len(survivors) > 0 {
			return nil, core.Errorf(core.KindRuntime, "job %s is %s, but process groups did not terminate: %s", id, j.Status, describe(survivors)).
				WithRemedy("end these processes by hand")
		}
	}
	return answer, nil
}

// loadRun reads an agent run as it was last committed.
func (s *Supervisor) loadRun(ctx context.Context, ref string) (rec *store.AgentRun, err error) {
	err = s.view(ctx, func(tx *store.Tx) (err error) {
		rec, err = tx.AgentRun(ref)
		return err
	})
	return rec, err
}
