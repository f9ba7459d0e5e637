package testkit

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// crashReports are what the Go runtime, and net/http for a handler, write to
// stderr when a process of ours is broken. A crashed supervisor or host is
// replaced so quickly that a test may pass beside it, and a data race only shows
// in the exit code of a process that nobody waits for: the logs tell.
var crashReports = []string{"DATA RACE", "panic:", "panic serving", "fatal error:"}

// crashExcerpt is how many bytes of a report a failure shows.
const crashExcerpt = 4 << 10

// AssertLogsClean fails the test for every *.log below root that holds a report
// of a data race or a crash, and shows the first one of each file. The logs of
// supervisor, hosts, gateway and engines all lie below the state folder.
func AssertLogsClean(t testing.TB, root string) {
	t.Helper()
	walk(t, root, nil, func(name string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() || path.Ext(name) != ".log" {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if report := firstReport(content); report != nil {
			t.Errorf("%s tells of a broken process:\n%s", filepath.Join(root, name), report)
		}
		return nil
	})
}

// firstReport returns what begins with the first report in a log, nil when
// there is none.
func firstReport(content []byte) []byte {
	first := -1
	for _, mark := range crashReports {
		if i := bytes.Index(content, []byte(mark)); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	start := bytes.LastIndexByte(content[:first], '\n') + 1
	return content[start:min(len(content), first+crashExcerpt)]
}
