package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package in events of a build
	Test       string // empty: about the package
	Elapsed    float64
	Output     string
}

// suite is what became of one package.
type suite struct {
	name           string
	passed, failed int
	skipped        int
	elapsed        time.Duration
	state          string // pass, fail, skip (no tests); empty while it runs
}

// report collects events and prints what a person wants to see of them.
type report struct {
	out    io.Writer
	suites []*suite            // in the order in which they ended
	open   map[string]*suite   // package -> its suite
	output map[string][]string // package/test -> its output until it ends
}

func newReport(out io.Writer) *report {
	return &report{out: out, open: map[string]*suite{}, output: map[string][]string{}}
}

// read takes all events of one go test.
func (r *report) read(events io.Reader) error {
	decoder := json.NewDecoder(events)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
		r.take(e)
	}
}

func (r *report) take(e event) {
	if e.Package == "" {
		if e.Action == "build-output" {
			fmt.Fprint(r.out, e.Output)
		}
		return
	}
	s := r.open[e.Package]
	if s == nil {
		s = &suite{name: e.Package}
		r.open[e.Package] = s
	}
	key := e.Package + "/" + e.Test
	switch e.Action {
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Action == "fail" || (e.Action == "skip" && e.Test != "") {
			fmt.Fprint(r.out, strings.Join(r.output[key], ""))
		}
		delete(r.output, key)
		r.end(s, e)
	}
}

// end counts the end of a test or of a package.
func (r *report) end(s *suite, e event) {
	if e.Test == "" {
		s.state, s.elapsed = e.Action, time.Duration(e.Elapsed*float64(time.Second))
		if e.Action == "fail" && s.failed == 0 {
			s.failed = 1 // it didn't build, timed out or failed in TestMain
		}
		r.suites = append(r.suites, s)
		fmt.Fprintf(r.out, "%-4s %8.1fs  %s\n", e.Action, e.Elapsed, s.name)
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
	case "skip":
		s.skipped++
	}
}

// summary prints the time of each suite, then the counts as the last line.
func (r *report) summary(total, budget time.Duration) {
	var passed, failed, skipped int
	fmt.Fprintf(r.out, "\n%8s %7s %7s  suite\n", "time", "passed", "failed")
	for _, s := range r.suites {
		passed, failed, skipped = passed+s.passed, failed+s.failed, skipped+s.skipped
		if s.state != "skip" {
			fmt.Fprintf(r.out, "%7.1fs %7d %7d  %s\n", s.elapsed.Seconds(), s.passed, s.failed, s.name)
		}
	}
	fmt.Fprintf(r.out, "%v of a budget of %v, builds included\n", total.Round(time.Second), budget)
	if skipped > 0 {
		fmt.Fprintf(r.out, "%d skipped, see above: a missing prerequisite should fail instead\n", skipped)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", passed, failed)
}
