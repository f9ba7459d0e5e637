package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func TestAssertLogsClean(t *testing.T) {
	const quiet = "{\"level\":\"WARN\",\"msg\":\"the keeper is gone; another one is started\"}\n"
	tests := []struct {
		name, file, content string
		want                string // what the one failure shows after the file's name; empty: no failure
	}{
		{"nothing wrong", "supervisor.log", quiet, ""},
		{"a race", "host.log", quiet + "==================\nWARNING: DATA RACE\nWrite at 0x1", "WARNING: DATA RACE\nWrite at 0x1"},
		{"a panic", "gateway.log", quiet + "panic: index out of range\n\ngoroutine 1", "panic: index out of range\n\ngoroutine 1"},
		{"the first of two", "gateway.log", "fatal error: concurrent map writes\npanic: more", "fatal error: concurrent map writes\npanic: more"},
		{"a handler's panic", "supervisor.log", "2026/01/01 http: panic serving @: boom", "2026/01/01 http: panic serving @: boom"},
		{"in the middle of a line", "root-stderr.log", quiet + "half a li WARNING: DATA RACE", "half a li WARNING: DATA RACE"},
		{"not a log", "events.jsonl", "panic: said a model", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := testkit.PrivateDir(t)
			dir := filepath.Join(root, "sessions", "s")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := write(dir, test.file, test.content); err != nil {
				t.Fatal(err)
			}
			got := failuresOf(t, func(t testing.TB) { testkit.AssertLogsClean(t, root) })
			switch {
			case test.want == "" && len(got) != 0:
				t.Errorf("AssertLogsClean failed with %q, want no failure", got)
			case test.want != "" && (len(got) != 1 || !strings.HasSuffix(got[0], test.file+" tells of a broken process:\n"+test.want)):
				t.Errorf("AssertLogsClean failed with %q, want one failure that shows %q", got, test.want)
			}
		})
	}
}
