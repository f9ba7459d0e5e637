package supervisor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// TestFinalise: a cancel that was decided first wins over every later ending,
// keeps its reason, and keeps what went wrong meanwhile as a warning.
//
// Spec: A062
func TestFinalise(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ref := store.FileRef{Name: "result.md", SHA256: "ab", Size: 2}
	failure := &store.Failure{Kind: "turn_failed", Message: "it broke"}
	usage := &store.TokenUsage{InputTokens: 7, EventCount: 1}
	completed := ending{job: core.JobCompleted, kind: core.ResultFinal, text: "ok"}
	failed := ending{job: core.JobFailed, failure: failure}
	tests := []struct {
		name    string
		job     store.Job
		end     ending
		ref     store.FileRef
		changed bool
		want    store.Job
	}{
		{
			"a completed turn",
			store.Job{Status: core.JobRunning},
			completed, ref, true,
			store.Job{Status: core.JobCompleted, FinishedAt: &now, Result: ref, ResultKind: core.ResultFinal, ResultState: core.ResultUnread, Inbox: store.InboxNew},
		},
		{
			"completion after a cancel",
			store.Job{Status: core.JobCancelling, CancelReason: "enough", Usage: usage},
			completed, ref, true,
			store.Job{Status: core.JobCancelled, CancelReason: "enough", Usage: usage, FinishedAt: &now, Inbox: store.InboxNew},
		},
		{
			"a failure after a cancel",
			store.Job{Status: core.JobCancelling, CancelReason: "enough", Usage: usage},
			failed,
			store.FileRef{},
			true,
			store.Job{Status: core.JobCancelled, CancelReason: "enough", Usage: usage, Warning: "it broke", FinishedAt: &now, Inbox: store.InboxNew},
		},
		{
			"a failure",
			store.Job{Status: core.JobRunning, Usage: usage},
			failed,
			store.FileRef{},
			true,
			store.Job{Status: core.JobFailed, Usage: usage, Error: "it broke", Failure: failure, FinishedAt: &now, Inbox: store.InboxNew},
		},
		{
			"a suspension has no end",
			store.Job{Status: core.JobRunning},
			ending{job: core.JobSuspended, kind: core.ResultPartial},
			ref, true,
			store.Job{Status: core.JobSuspended, Result: ref, ResultKind: core.ResultPartial, ResultState: core.ResultUnread, Inbox: store.InboxNew},
		},
		{"late completion of a stopped job", store.Job{Status: core.JobStopped}, completed, ref, false, store.Job{Status: core.JobStopped}},
		{"late failure of a completed job", store.Job{Status: core.JobCompleted}, failed, ref, false, store.Job{Status: core.JobCompleted}},
	}
	for _, tt := range tests {
		job := tt.job
		if changed := finalise(&job, tt.end, tt.ref, now); changed != tt.changed {
			t.Errorf("%s: changed = %v, want %v", tt.name, changed, tt.changed)
		}
		if diff := cmp.Diff(tt.want, job); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestNormalise: what a failed turn says becomes a failure that tells whether
// trying again helps; a reset time without a zone is never guessed at.
//
// Spec: R002
func TestNormalise(t *testing.T) {
	t.Parallel()
	const limit = "Provider usage limit reached; limit will reset at 2026-08-22 05:24:28"
	tests := []struct {
		name, error string
		want        store.Failure
	}{
		{
			"limit without a zone", `{"message":"` + limit + `"}`,
			store.Failure{Kind: "provider_usage_limited", Message: limit, Retryable: true, RetryAtRaw: "2026-08-22 05:24:28"},
		},
		{
			"limit in UTC", `{"message":"quota reset at 2026-08-22 05:24:28 UTC"}`,
			store.Failure{
				Kind: "provider_usage_limited", Message: "quota reset at 2026-08-22 05:24:28 UTC", Retryable: true,
				RetryAtRaw: "2026-08-22 05:24:28", RetryAt: "2026-08-22T05:24:28+00:00", RetryAtTimezone: "UTC",
			},
		},
		{
			"the zone as it was spelled", `{"message":"quota reset at 2026-08-22 05:24:28 utc"}`,
			store.Failure{
				Kind: "provider_usage_limited", Message: "quota reset at 2026-08-22 05:24:28 utc", Retryable: true,
				RetryAtRaw: "2026-08-22 05:24:28", RetryAt: "2026-08-22T05:24:28+00:00", RetryAtTimezone: "utc",
			},
		},
		{
			"limit by its class alone", `{"message":"Come back later.","codexErrorInfo":"usageLimitExceeded"}`,
			store.Failure{Kind: "provider_usage_limited", Message: "Come back later.", Retryable: true},
		},
		{
			"arguments that are no JSON", `{"message":"Failed to parse tool call arguments: EOF"}`,
			store.Failure{Kind: "malformed_tool_arguments", Message: "Failed to parse tool call arguments: EOF", Retryable: true},
		},
		{
			"the way to the provider", `{"message":"gone","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":503}}}`,
			store.Failure{Kind: "provider_transport", Message: "gone", Retryable: true},
		},
		{
			"a cut stream", `{"message":"stream disconnected before completion: eof","codexErrorInfo":"other"}`,
			store.Failure{Kind: "provider_transport", Message: "stream disconnected before completion: eof", Retryable: true},
		},
		{
			"a limit behind a cut stream", `{"message":"stream disconnected before completion: usage limit reached","codexErrorInfo":"other"}`,
			store.Failure{Kind: "provider_usage_limited", Message: "stream disconnected before completion: usage limit reached", Retryable: true},
		},
		{
			"a full context", `{"message":"too long","codexErrorInfo":"contextWindowExceeded"}`,
			store.Failure{Kind: "context_window", Message: "too long"},
		},
		{
			"a bad request", `{"message":"no","codexErrorInfo":"badRequest"}`,
			store.Failure{Kind: "turn_failed", Message: "no"},
		},
		{
			"not steerable", `{"message":"no","codexErrorInfo":{"activeTurnNotSteerable":{"turnKind":"review"}}}`,
			store.Failure{Kind: "turn_failed", Message: "no"},
		},
		{
			"a shape of another kind", `{"message":"no","codexErrorInfo":{"type":"upstream"}}`,
			store.Failure{Kind: "turn_failed", Message: "no"},
		},
		{"no error at all", ``, store.Failure{Kind: "turn_failed", Message: "the turn failed"}},
		{"not JSON", `<html>`, store.Failure{Kind: "turn_failed", Message: "the turn failed"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, *normalise("failed", []byte(tt.error))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestOneLine: what a model says reaches a terminal as one harmless line.
func TestOneLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"plain", "plain"},
		{"two\nlines\tand a tab", "two lines and a tab"},
		{"\x1b[31mred\x1b[0m\a", "[31mred[0m"},
		{"a\u202eb\u200bc", "abc"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := oneLine(tt.in); got != tt.want {
			t.Errorf("oneLine(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	long := make([]rune, followTextRunes+5)
	for i := range long {
		long[i] = 'ß'
	}
	if got := []rune(oneLine(string(long))); len(got) != followTextRunes+1 || got[followTextRunes] != '…' {
		t.Errorf("oneLine of %d code points has %d", len(long), len(got))
	}
}

// TestSlice pages a text by code points without losing or doubling any.
func TestSlice(t *testing.T) {
	t.Parallel()
	const text = "aé€😀z"
	for size := 1; size <= 6; size++ {
		var got string
		for from, more := 0, true; more; from += size {
			var page string
			if page, more = slice(text, from, size); len([]rune(page)) > size {
				t.Errorf("slice(%d, %d) = %q", from, size, page)
			}
			got += page
		}
		if got != text {
			t.Errorf("pages of %d make %q, want %q", size, got, text)
		}
	}
	if page, more := slice("", 0, 4); page != "" || more {
		t.Errorf("slice of nothing = %q, %v", page, more)
	}
}
