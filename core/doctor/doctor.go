// Package doctor finds out whether the product works on this machine: every
// precondition with a verdict, the reason and the remedy, in a few seconds.
//
// What can be tried is tried rather than guessed: Codex passes the gate that
// sessions pass, the MCP server shakes hands with a client, and a command runs
// in the sandbox that agents get. A doctor changes nothing. It makes what the
// first session would make as well, the three roots and the gate's cache, and
// takes away the rest.
//
//	Run -> machine                       \
//	    -> folders                        |
//	    -> git                            |  at the same time, each a list
//	    -> codex -> sandbox               |> of findings, one deadline
//	    -> profiles                       |
//	    -> MCP                            |
//	    -> records                       /
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
)

// Verdict says what a finding means for the work.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // worth a look; sessions start all the same, or it could not be checked
	Failed  Verdict = "failed"  // sessions will not start, or not be what they promise
)

// Finding is what came of one check.
type Finding struct {
	Group   string  `json:"group"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"`           // one line: what was found
	Remedy  string  `json:"remedy,omitempty"` // what to do about it, an imperative
}

// Report is the whole examination.
type Report struct {
	OK             bool      `json:"ok"` // nothing failed
	ElapsedSeconds float64   `json:"elapsed_seconds"`
	Findings       []Finding `json:"findings"`        // those of a group stand together
	Codex          *Codex    `json:"codex,omitempty"` // nil: none was admitted
	MCP            *MCPProbe `json:"mcp,omitempty"`   // nil: it was not tried
	Sandbox        []Reach   `json:"sandbox"`         // what agents' commands reached; empty: it was not tried
}

// Codex is the Codex that sessions would be pinned to.
type Codex struct {
	Path         string `json:"path"` // absolute, links resolved
	SHA256       string `json:"sha256"`
	Version      string `json:"version"`
	SchemaSHA256 string `json:"schema_sha256"`
	Verdict      string `json:"verdict"` // reviewed, compatible
}

// Count returns how many findings have the verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// DefaultLimit is how long an examination may take.
const DefaultLimit = 5 * time.Second

// Input says what to examine, and with what.
type Input struct {
	Getenv  func(string) string
	UID     int
	Cwd     string // the folder that a session would work in; absolute
	Profile string // the only profile to look at, an id or a path; empty: all
	Bundled fs.FS  // the bundled profiles
	Binary  string // our own executable, absolute: `BINARY mcp` is tried
	Build   string
	Random  io.Reader
	Sandbox bool // only what agents' commands can reach, and what that stands on
	// Limit is how long it may take; 0: DefaultLimit. A check that has not
	// ended by then has failed.
	Limit time.Duration
}

func (in *Input) limit() time.Duration {
	if in.Limit <= 0 {
		return DefaultLimit
	}
	return in.Limit
}

// The groups, in the order of a report.
const (
	groupMachine  = "machine"
	groupFolders  = "folders"
	groupGit      = "git"
	groupCodex    = "codex"
	groupSandbox  = "sandbox"
	groupProfiles = "profiles"
	groupMCP      = "mcp"
	groupRecords  = "records"
)

// patient is one examination.
type patient struct {
	*Input
	ground func() ground     // found by the first check that asks, for all
	codex  chan codexbin.Pin // takes one when Codex was admitted, then closed
}

// check is a part of the examination that runs by itself. It ends soon after
// its context.
type check struct {
	group string
	run   func(ctx context.Context) outcome
}

// outcome is what a check found.
type outcome struct {
	findings []Finding
	codex    *Codex
	mcp      *MCPProbe
	reach    []Reach
}

// Run examines the machine. It always returns a report, within the limit.
func Run(ctx context.Context, in *Input) *Report {
	started := time.Now()
	hard, cancel := context.WithTimeout(ctx, in.limit())
	defer cancel()
	p := newPatient(in)
	report := &Report{Sandbox: []Reach{}}
	for _, o := range runAll(hard, in.limit(), p.checks()) {
		report.Findings = append(report.Findings, o.findings...)
		if o.codex != nil {
			report.Codex = o.codex
		}
		if o.mcp != nil {
			report.MCP = o.mcp
		}
		report.Sandbox = append(report.Sandbox, o.reach...)
	}
	for i := range report.Findings {
		report.Findings[i].Reason = oneLine(report.Findings[i].Reason)
		report.Findings[i].Remedy = oneLine(report.Findings[i].Remedy)
	}
	report.OK = report.Count(Failed) == 0
	report.ElapsedSeconds = time.Since(started).Seconds()
	return report
}

func newPatient(in *Input) *patient {
	return &patient{
		Input: in, codex: make(chan codexbin.Pin, 1),
		ground: sync.OnceValue(func() ground { return findGround(in) }),
	}
}

func (p *patient) checks() []check {
	if p.Sandbox {
		return []check{{groupFolders, p.folders}, {groupCodex, p.findCodex}, {groupSandbox, p.sandbox}}
	}
	return []check{
		{groupMachine, p.machine},
		{groupFolders, p.folders},
		{groupGit, p.git},
		{groupCodex, p.findCodex},
		{groupSandbox, p.sandbox},
		{groupProfiles, p.profiles},
		{groupMCP, p.mcp},
		{groupRecords, p.records},
	}
}

// runAll runs the checks at the same time and returns what they found, in
// their order. They are told to end at four fifths of the limit, so that they
// can clean up. One that hangs all the same, on a file system that does not
// answer, is left behind: nothing could end it, and a doctor who hangs too
// helps nobody.
func runAll(ctx context.Context, limit time.Duration, checks []check) []outcome {
	soft, cancel := context.WithTimeoutCause(ctx, limit*4/5, errTooLong)
	defer cancel()
	type ended struct {
		at int
		outcome
	}
	results := make(chan ended, len(checks)) // nobody who is late blocks on it
	for i, c := range checks {
		go func() { results <- ended{i, c.run(soft)} }()
	}
	all := make([]outcome, len(checks))
	for i, c := range checks {
		late := finding(c.group, c.group, Failed, fmt.Sprintf("the check did not end within %s", limit))
		late.Remedy = "see whether a file system hangs; " + remedyTime
		all[i] = outcome{findings: []Finding{late}}
	}
	for range checks {
		select {
		case r := <-results:
			all[r.at] = r.outcome
		case <-ctx.Done():
			return all
		}
	}
	return all
}

func finding(group, check string, v Verdict, reason string) Finding {
	return Finding{Group: group, Check: check, Verdict: v, Reason: reason}
}

// found is a finding made of an error. An error of the core has its remedy in
// a field, unless something wrapped more text around it; otherwise says what
// to do when the error does not.
func found(group, check string, v Verdict, err error, otherwise string) Finding {
	f := finding(group, check, v, err.Error())
	if e, ok := errors.AsType[*core.Error](err); ok && e.Error() == err.Error() {
		plain := *e
		plain.Remedy = ""
		f.Reason, f.Remedy = plain.Error(), e.Remedy
	}
	switch {
	case errors.Is(err, errTooLong):
		f.Remedy = remedyTime
	case f.Remedy == "":
		f.Remedy = otherwise
	}
	return f
}

// notChecked is said where a check stands on something that failed and is
// named by its own finding.
func notChecked(group, check, needs string) Finding {
	f := finding(group, check, Warning, "not checked: it needs "+needs)
	f.Remedy = "mend what failed and run `codex-mmo doctor` again"
	return f
}

// maxLine bounds a text of a finding, in code points.
const maxLine = 600

// oneLine makes a text that may hold anything, such as what another program
// printed, one line that a terminal shows as it is.
func oneLine(s string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(s))
	if runes := []rune(clean); len(runes) > maxLine {
		return string(slices.Concat(runes[:maxLine], []rune("…")))
	}
	return clean
}
