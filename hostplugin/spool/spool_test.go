package spool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a spool that is closed when the test ends.
func open(t *testing.T, dir string, opts *spool.Options) *spool.Spool {
	t.Helper()
	s, err := spool.Open(dir, opts)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return s
}

func begin(t *testing.T, s *spool.Spool, generation uint64) {
	t.Helper()
	if err := s.Begin(generation); err != nil {
		t.Fatalf("Begin(%d) = %v", generation, err)
	}
}

func add(t *testing.T, s *spool.Spool, message string) spool.Row {
	t.Helper()
	row, err := s.Append(spool.Received, json.RawMessage(message), false)
	if err != nil {
		t.Fatalf("Append(%s) = %v", message, err)
	}
	return row
}

// rows returns what a reader finds after a position, as "gen/seq message".
func rows(t *testing.T, s *spool.Spool, after spool.Position) []string {
	t.Helper()
	r := s.Reader(after)
	defer r.Close()
	var all []string
	for {
		row, ok, err := r.TryNext()
		if err != nil {
			t.Fatalf("TryNext() = %v", err)
		}
		if !ok {
			return all
		}
		text := string(row.Message)
		if row.Direction == spool.Hole {
			text = "hole: " + row.HoleReason()
		}
		all = append(all, fmt.Sprintf("%d/%d %s", row.Generation, row.Seq, text))
	}
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

func folder(t *testing.T) string { return filepath.Join(testkit.PrivateDir(t), "spool") }

func TestRowsComeBackInOrderAcrossProcessesAndGenerations(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, nil)
	begin(t, s, 1)
	add(t, s, `{"a":1}`)
	add(t, s, "{\n\t\"spans\": \"lines\"\r\n}")
	_ = s.Close()

	s = open(t, dir, nil) // another process: the generation goes on
	begin(t, s, 1)
	if row := add(t, s, `"<&>"`); row.Position() != (spool.Position{Generation: 1, Seq: 3}) {
		t.Errorf("first row after opening again = %v, want 1/3", row.Position())
	}
	begin(t, s, 2)
	begin(t, s, 2) // the same again changes nothing
	add(t, s, `null`)
	want := []string{`1/1 {"a":1}`, `1/2 {"spans":"lines"}`, `1/3 "<&>"`, `2/1 null`}
	if diff := cmp.Diff(want, rows(t, s, spool.Position{})); diff != "" {
		t.Errorf("all rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], rows(t, s, spool.Position{Generation: 1, Seq: 2})); diff != "" {
		t.Errorf("rows after 1/2 (-want +got):\n%s", diff)
	}
	if got := s.Last(); got != (spool.Position{Generation: 2, Seq: 1}) {
		t.Errorf("Last() = %v, want 2/1", got)
	}
}

func TestALineIsTheWholeRow(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, &spool.Options{Now: func() time.Time { return time.Unix(0, 1764540000000000001) }})
	begin(t, s, 3)
	add(t, s, `{"method":"x"}`)
	data, err := os.ReadFile(filepath.Join(dir, "00000000000000000003-00000000000000000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"gen":3,"seq":1,"at":1764540000000000001,"direction":"received","message":{"method":"x"}}` + "\n"
	if string(data) != want {
		t.Errorf("segment = %s, want %s", data, want)
	}
}

func TestATornTailIsCutAndTold(t *testing.T) {
	for name, torn := range map[string]string{
		"half a row":   `{"gen":1,"seq":2,"at":1,"direction":"received","mess`,
		"no line end":  `{"gen":1,"seq":2,"at":1,"direction":"received","message":{}}`,
		"a single bit": `{`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			s := open(t, dir, nil)
			begin(t, s, 1)
			add(t, s, `"whole"`)
			_ = s.Close()
			scribble(t, filepath.Join(dir, segments(t, dir)[0]), torn)
			s = open(t, dir, nil)
			begin(t, s, 1)
			add(t, s, `"next"`)
			want := []string{`1/1 "whole"`, "1/2 hole: the row that was being written when the host died was cut", `1/3 "next"`}
			if diff := cmp.Diff(want, rows(t, s, spool.Position{})); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// scribble appends text to a file.
func scribble(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestLostRowsAreAHole(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, &spool.Options{SegmentBytes: 1}) // a segment per row
	begin(t, s, 1)
	for i := range 5 {
		add(t, s, fmt.Sprint(i+1))
	}
	names := segments(t, dir)
	if len(names) != 5 {
		t.Fatalf("segments = %v, want 5", names)
	}
	_ = s.Close()
	if err := os.Remove(filepath.Join(dir, names[2])); err != nil {
		t.Fatal(err)
	}
	scribble(t, filepath.Join(dir, names[1]), "damaged\n")
	s = open(t, dir, nil)
	want := []string{"1/1 1", "1/2 2", "1/3 hole: rows 3 to 3 of generation 1 are missing from the spool", "1/4 4", "1/5 5"}
	if diff := cmp.Diff(want, rows(t, s, spool.Position{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestAcknowledgeDeletesWholeSegmentsOnly(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, &spool.Options{SegmentBytes: 200}) // two rows of 90 bytes each
	begin(t, s, 1)
	for i := range 6 {
		add(t, s, fmt.Sprintf(`"%s%d"`, strings.Repeat("x", 15), i+1))
	}
	for _, step := range []struct {
		through spool.Position
		left    int
	}{
		{spool.Position{Generation: 1, Seq: 1}, 3},
		{spool.Position{Generation: 1, Seq: 2}, 2},
		{spool.Position{Generation: 1, Seq: 3}, 2},
		{spool.Position{Generation: 9, Seq: 9}, 1}, // the one being written stays
	} {
		if err := s.Acknowledge(step.through); err != nil {
			t.Fatalf("Acknowledge(%v) = %v", step.through, err)
		}
		if got := segments(t, dir); len(got) != step.left {
			t.Errorf("after Acknowledge(%v): segments %v, want %d", step.through, got, step.left)
		}
	}
	got := rows(t, s, spool.Position{Generation: 1, Seq: 4})
	if len(got) != 2 || !strings.HasPrefix(got[0], "1/5") {
		t.Errorf("rows after 1/4 = %v, want 5 and 6 without a hole", got)
	}
	if got := rows(t, s, spool.Position{}); len(got) != 3 || !strings.Contains(got[0], "1/4 hole: rows 1 to 4") {
		t.Errorf("rows from the start = %v, want a hole for what is gone", got)
	}
	// A new process goes on where the numbers ended.
	_ = s.Close()
	s = open(t, dir, nil)
	begin(t, s, 1)
	if row := add(t, s, "1"); row.Seq != 7 {
		t.Errorf("next row = %d, want 7", row.Seq)
	}
}

func TestOneProcessHoldsASpool(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, nil)
	if _, err := spool.Open(dir, nil); !errors.Is(err, spool.ErrLocked) {
		t.Errorf("second Open() = %v, want ErrLocked", err)
	}
	_ = s.Close()
	open(t, dir, nil)
}

func TestBeginRefusesAnEarlierGeneration(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, nil)
	begin(t, s, 5)
	for _, generation := range []uint64{0, 1, 4} {
		if err := s.Begin(generation); err == nil {
			t.Errorf("Begin(%d) at generation 5 succeeded", generation)
		}
	}
	_ = s.Close()
	s = open(t, dir, nil)
	if err := s.Begin(4); err == nil {
		t.Error("Begin(4) of a spool that has generation 5 succeeded")
	}
	if _, err := s.Append(spool.Sent, json.RawMessage("1"), false); err == nil {
		t.Error("Append before Begin succeeded")
	}
}

func TestAppendRefusesWhatIsNoJSONAndWritesNothing(t *testing.T) {
	s := open(t, folder(t), nil)
	begin(t, s, 1)
	for _, bad := range []string{"", "{", "{}{}", "nope", "{\"a\":\n"} {
		if _, err := s.Append(spool.Received, json.RawMessage(bad), false); err == nil {
			t.Errorf("Append(%q) succeeded", bad)
		}
	}
	add(t, s, "1")
	if diff := cmp.Diff([]string{"1/1 1"}, rows(t, s, spool.Position{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestConcurrentWritersAndASlowReaderSeeEveryRowOnce(t *testing.T) {
	s := open(t, folder(t), &spool.Options{SegmentBytes: 500})
	begin(t, s, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const writers, each = 12, 50
	seen := make(chan uint64, writers*each)
	var all sync.WaitGroup
	all.Go(func() {
		r := s.Reader(spool.Position{})
		defer r.Close()
		for range writers * each {
			row, err := next(ctx, s, r)
			if err != nil {
				t.Errorf("waiting for a row: %v", err)
				return
			}
			seen <- row.Seq
		}
	})
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, err := s.Append(spool.Received, json.RawMessage(fmt.Sprintf(`[%d,%d]`, w, i)), false); err != nil {
					t.Errorf("Append() = %v", err)
				}
			}
		})
	}
	all.Wait()
	close(seen)
	due := uint64(1)
	for seq := range seen {
		if seq != due {
			t.Fatalf("row %d came where %d was due", seq, due)
		}
		due++
	}
	if due != writers*each+1 {
		t.Errorf("saw %d rows, want %d", due-1, writers*each)
	}
}

// next waits for the next row, as a follower does.
func next(ctx context.Context, s *spool.Spool, r *spool.Reader) (spool.Row, error) {
	for {
		changed := s.Changed()
		if row, ok, err := r.TryNext(); err != nil || ok {
			return row, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return spool.Row{}, ctx.Err()
		}
	}
}

func TestCloseWakesFollowersAndEndsAppend(t *testing.T) {
	s := open(t, folder(t), nil)
	begin(t, s, 1)
	changed := s.Changed()
	_ = s.Close()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("Close did not wake the followers")
	}
	if _, err := s.Append(spool.Received, json.RawMessage("1"), false); !errors.Is(err, spool.ErrClosed) {
		t.Errorf("Append() after Close = %v, want ErrClosed", err)
	}
}

func TestFoldersAndFilesArePrivateAndNeverFollowed(t *testing.T) {
	base := testkit.PrivateDir(t)
	dir := filepath.Join(base, "spool")
	s := open(t, dir, nil)
	begin(t, s, 1)
	if _, _, err := s.OpenJournal("commands.jsonl"); err != nil {
		t.Fatal(err)
	}
	testkit.AssertModes(t, dir)
	_ = s.Close()

	outside := filepath.Join(base, "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, segments(t, dir)[0])
	if err := errors.Join(os.Remove(name), os.Symlink(outside, name)); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Open(dir, nil); err == nil {
		t.Error("Open() followed a symlink for a segment")
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Open(link, nil); err == nil {
		t.Error("Open() followed a symlink for the folder")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.Open(dir, nil); err == nil {
		t.Error("Open() took a folder that others can read")
	}
}

func TestAJournalKeepsItsWholeLines(t *testing.T) {
	dir := folder(t)
	s := open(t, dir, nil)
	j, lines, err := s.OpenJournal("j.jsonl")
	if err != nil || len(lines) != 0 {
		t.Fatalf("OpenJournal() = %v, %v", lines, err)
	}
	for i := range 2 {
		if err := j.Append(map[string]int{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(func() {}); err == nil {
		t.Error("Append of what is no JSON succeeded")
	}
	_ = j.Close()
	scribble(t, filepath.Join(dir, "j.jsonl"), "damaged\n{\"to")
	j, lines, err = s.OpenJournal("j.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append("last"); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	if got := fmt.Sprintf("%s", lines); got != `[{"n":0} {"n":1}]` {
		t.Errorf("lines = %s, want the two whole ones", got)
	}
	data, _ := os.ReadFile(filepath.Join(dir, "j.jsonl"))
	if !strings.HasSuffix(string(data), "damaged\n\"last\"\n") {
		t.Errorf("journal = %q, want the torn tail cut and overwritten", data)
	}
}
