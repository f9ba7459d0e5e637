package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkTwentyOfFiftyThousand captures and integrates 20 changed files of
// 50,000, and prints the ratio to git's own status of the same tree.
func BenchmarkTwentyOfFiftyThousand(b *testing.B) {
	w := newWorld(b)
	files := map[string]string{}
	for n := range 50_000 {
		files[fmt.Sprintf("d%d/e%d/f%d", n%50, n%1000, n)] = fmt.Sprintf("content of file %d\n", n)
	}
	w.commit(files)
	w.git("update-index", "-q", "--refresh")
	r := w.open()
	start := time.Now()
	wt := w.add(r)
	b.ReportMetric(time.Since(start).Seconds(), "s/worktree")
	for n := range 20 {
		must(b, os.WriteFile(filepath.Join(wt.Dir, fmt.Sprintf("d%d/e%d/f%d", n, n, n)), []byte("changed\n"), 0o644))
	}
	w.git("status", "--porcelain")
	var status, capture, integrate time.Duration
	for b.Loop() {
		start = time.Now()
		w.git("status", "--porcelain")
		status += time.Since(start)
		start = time.Now()
		c := w.capture(r, wt)
		capture += time.Since(start)
		start = time.Now()
		plan := w.plan(c.BaseTree, c.Tree)
		_, err := r.Integrate(b.Context(), plan)
		integrate += time.Since(start)
		must(b, err)
		_, err = r.Undo(b.Context(), plan.Journal)
		must(b, err)
	}
	b.ReportMetric(float64(capture)/float64(status), "capture/status")
	b.ReportMetric(float64(integrate)/float64(status), "integrate/status")
}
