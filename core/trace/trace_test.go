package trace_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/core/trace"
)

func logOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(testkit.PrivateDir(t), "events.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func row(message string) string {
	return `{"gen":1,"seq":1,"recorded_at":"2026-01-02T03:04:05Z","direction":"received","message":` + message + "}\n"
}

func read(t *testing.T, path string, w trace.Window) *trace.Page {
	t.Helper()
	page, err := trace.Read(path, w)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// whole reads a record part by part, whose digest and length must stay the same.
func whole(t *testing.T, path string, record, chars int) string {
	t.Helper()
	var text strings.Builder
	var first *trace.Part
	for cursor := 0; ; {
		part, err := trace.ReadRecord(path, record, cursor, chars)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = part
		}
		if part.SHA256 != first.SHA256 || part.TotalChars != first.TotalChars {
			t.Errorf("at %d the record has %d characters and digest %s, want %d and %s", cursor, part.TotalChars, part.SHA256, first.TotalChars, first.SHA256)
		}
		text.WriteString(part.Content)
		if part.Next == nil {
			break
		}
		cursor = *part.Next
	}
	if got := len([]rune(text.String())); got != first.TotalChars {
		t.Errorf("the parts have %d characters, want %d", got, first.TotalChars)
	}
	return text.String()
}

// TestPages: records come whole, in order and bounded; one that is too long for
// a page is named and can be read in full.
//
// Spec: R067
func TestPages(t *testing.T) {
	t.Parallel()
	output := strings.Repeat("é<&>\u2028", 120<<10) // 720 KiB and more
	long, err := json.Marshal(map[string]any{"method": "item/completed", "params": map[string]string{"tool_output": output}})
	if err != nil {
		t.Fatal(err)
	}
	broken := `{"broken":"` + strings.Repeat("y", 300<<10) + "\n"
	path := logOf(t, row(`{"id":12345678901234567890}`)+row(string(long))+broken+row(`{"method":"d"}`)+`{"torn`)

	page := read(t, path, trace.Window{})
	size := 0
	for _, r := range page.Records {
		size += len(r)
	}
	if len(page.Records) != 4 || page.Next != 4 || !page.AtEnd || size >= 512<<10 {
		t.Errorf("the page has %d records of %d bytes and goes on at %d (end %v), want 4 and 4 (true)", len(page.Records), size, page.Next, page.AtEnd)
	}
	if got := string(page.Records[0]); !strings.Contains(got, `"id":12345678901234567890`) {
		t.Errorf("a number was changed: %s", got)
	}
	var cut map[string]any
	if err := json.Unmarshal(page.Records[1], &cut); err != nil {
		t.Fatal(err)
	}
	total := cut["total_chars"]
	want := map[string]any{
		"trace_record_truncated": true, "record_cursor": 1.0, "total_chars": total,
		"recorded_at": "2026-01-02T03:04:05Z", "direction": "received", "method": "item/completed",
	}
	if diff := cmp.Diff(want, cut); diff != "" {
		t.Errorf("the stub (-want +got):\n%s", diff)
	}
	text := whole(t, path, 1, 30_000)
	if float64(len([]rune(text))) != total {
		t.Errorf("the record has %d characters, the stub says %v", len([]rune(text)), total)
	}
	var full struct {
		Message struct {
			Params map[string]string `json:"params"`
		} `json:"message"`
	}
	if err := json.Unmarshal([]byte(text), &full); err != nil || full.Message.Params["tool_output"] != output {
		t.Errorf("the record in full is not what was logged: %v", err)
	}

	bad, err := json.Marshal(map[string]string{"malformed_event": broken[:2000]})
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, path, 2, 100); got != string(bad) || string(page.Records[2]) != got {
		t.Errorf("a line that is no JSON reads %.80s… and %.80s…", got, page.Records[2])
	}

	one := read(t, path, trace.Window{Cursor: 1, Limit: 1})
	if len(one.Records) != 1 || one.Next != 2 || one.AtEnd || !bytes.Equal(one.Records[0], page.Records[1]) {
		t.Errorf("the page of one record: %d records, next %d, end %v", len(one.Records), one.Next, one.AtEnd)
	}
	if end := read(t, path, trace.Window{Cursor: 4}); len(end.Records) != 0 || end.Next != 4 || !end.AtEnd {
		t.Errorf("after the end: %+v", end)
	}
}

// TestSmallPages: pages of any size show every record once.
func TestSmallPages(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 50 {
		text.WriteString(row(`{"n":` + strconv.Itoa(i) + `,"text":"` + strings.Repeat("x", 20*i) + `"}`))
	}
	path := logOf(t, text.String())
	var got []string
	for w := (trace.Window{MaxBytes: 1000}); ; {
		page := read(t, path, w)
		size := 0
		for _, r := range page.Records {
			got = append(got, string(r))
			size += len(r)
		}
		if size > 1000 {
			t.Errorf("the page at %d has %d bytes", w.Cursor, size)
		}
		if w.Cursor = page.Next; page.AtEnd {
			break
		}
	}
	if len(got) != 50 {
		t.Fatalf("%d records were shown, want 50", len(got))
	}
	for i, r := range got {
		if !strings.Contains(r, `"n":`+strconv.Itoa(i)+`,`) && !strings.Contains(r, `"record_cursor":`+strconv.Itoa(i)+`,`) {
			t.Errorf("record %d is %s", i, r)
		}
	}
}

// TestPrivateReasoning is in no page and in no record, however it is told.
//
// Spec: R067
func TestPrivateReasoning(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"an item":            row(`{"method":"item/completed","params":{"item":{"type":"reasoning","id":"r1","summary":["SECRET"],"content":["SECRET"]}}}`),
		"an item of a turn":  row(`{"result":{"thread":{"turns":[{"items":[{"type":"reasoning","content":[{"text":"SECRET"}]}]}]}}}`),
		"a notice":           row(`{"method":"item/reasoning/summaryTextDelta","params":{"delta":"SECRET"}}`),
		"a raw item":         row(`{"method":"rawResponseItem/completed","params":{"item":{"type":"message","encrypted_content":"SECRET"}}}`),
		"a wire's member":    row(`{"choices":[{"message":{"reasoning_content":"SECRET","reasoningDetails":["SECRET"]}}]}`),
		"an unreadable row":  row(`{"method":"host/unreadable","params":{"text":"{\"type\":\"reasoning\",\"text\":\"SECRET"}}`),
		"a line without end": `{"type":"reasoning","text":"SECRET` + "\n",
	} {
		path := logOf(t, line+row(`{"method":"item/completed","params":{"item":{"type":"agentMessage","text":"the reasoning effort is high"},"reasoningEffort":"high"}}`))
		page := read(t, path, trace.Window{})
		if len(page.Records) != 2 {
			t.Fatalf("%s: %d records", name, len(page.Records))
		}
		for i, r := range page.Records {
			if strings.Contains(string(r), "SECRET") || strings.Contains(whole(t, path, i, 7), "SECRET") {
				t.Errorf("%s: %s", name, r)
			}
		}
		if got := string(page.Records[1]); !strings.Contains(got, "the reasoning effort is high") || !strings.Contains(got, `"reasoningEffort":"high"`) {
			t.Errorf("%s: what is no reasoning is gone: %s", name, got)
		}
	}
}

// TestReadRefuses what can't be read, and says what can.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	path := logOf(t, row(`{}`))
	if page := read(t, path+".none", trace.Window{}); len(page.Records) != 0 || !page.AtEnd {
		t.Errorf("a log that does not exist has %+v", page)
	}
	link := filepath.Join(filepath.Dir(path), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"has 1 records so far":             errOf(trace.Read(path, trace.Window{Cursor: 2})),
		"cursor -1 is below 0":             errOf(trace.Read(path, trace.Window{Cursor: -1})),
		"limit 1001 is out of range":       errOf(trace.Read(path, trace.Window{Limit: 1001})),
		"max_bytes 999 is out of range":    errOf(trace.Read(path, trace.Window{MaxBytes: 999})),
		"record_cursor 1: the trace has 1": errOf(trace.ReadRecord(path, 1, 0, 0)),
		"cursor 1000 exceeds the record's": errOf(trace.ReadRecord(path, 0, 1000, 0)),
		"max_chars 30001 is out of range":  errOf(trace.ReadRecord(path, 0, 0, 30_001)),
	} {
		if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := trace.Read(link, trace.Window{}); core.KindOf(err) != core.KindOS {
		t.Errorf("a symbolic link: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }
