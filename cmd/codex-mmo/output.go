package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Rules of output, for all verbs: results go to stdout, progress and errors to
// stderr; one line says one thing; times are local, to the second; tables have
// a header; with --json stdout holds one JSON value and nothing else.
//
// What models, engines, providers and repositories wrote may be anything, so
// it never reaches a terminal as it is: stderr and tables are always cleaned,
// other text on stdout is when that is a terminal. Scripts that read a pipe or
// --json get every byte.

func (a *app) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if isTerminal(a.out) {
		text = clean(text)
	}
	fmt.Fprint(a.out, text)
}

func (a *app) notice(format string, args ...any) {
	fmt.Fprintln(a.err, clean(fmt.Sprintf(format, args...)))
}

func (a *app) printJSON(v any) error { return encodeJSON(a, v) }

func clock(t time.Time) string { return t.Local().Format(time.DateTime) }

// isTerminal reports whether w may be a terminal. Other character devices,
// such as /dev/null, count as one: nobody reads bytes back from them.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// clean takes out of a text what would steer a terminal or hide words from its
// reader: control characters, so that an escape sequence becomes plain letters,
// marks of writing direction and other invisible characters. Lines, tabs and
// the joiners that scripts and emoji need stay. Bytes that are no UTF-8 become
// U+FFFD.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == zeroWidthNonJoiner, r == zeroWidthJoiner:
			return r
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return '\n'
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, s)
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// Bounds of a line in code points: a cell may hold a whole path, a note is for
// a glance.
const (
	cellRunes = 1000
	noteRunes = 160
)

// oneLine is clean for a place that has one line of at most limit code points.
func oneLine(s string, limit int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// firstLine returns the first line with words in it of the first text that has
// one.
func firstLine(texts ...string) string {
	for _, text := range texts {
		for line := range strings.Lines(clean(text)) {
			if line = oneLine(line, noteRunes); line != "" {
				return line
			}
		}
	}
	return ""
}

func encodeJSON(a *app, v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// fail prints an error: what failed, and what to do.
func (a *app) fail(err error) {
	if a.json {
		_ = encodeJSON(a, control.ErrorBody{Error: errorView(err)}) // there is no better place to say that stdout is gone
		return
	}
	a.notice("codex-mmo: %s", err)
}

func errorView(err error) control.ErrorView {
	v := control.ErrorView{Kind: string(core.KindOf(err)), Message: err.Error()}
	var e *core.Error
	if asError(err, &e) {
		v.Message, v.Remedy, v.Reason = e.Message, e.Remedy, e.Reason
		v.SessionID, v.SessionStatus = e.SessionID, string(e.SessionStatus)
		for _, h := range e.Holders {
			v.Holders = append(v.Holders, control.HolderView(h))
		}
	}
	return v
}

// table prints rows under a header, columns aligned, each cell one clean line.
func (a *app) table(header []string, rows [][]string) {
	a.align(append([][]string{header}, rows...))
}

// facts prints what there is to say of one thing, a name and a value a line.
// Values that are empty are left out.
func (a *app) facts(list ...[2]string) {
	var rows [][]string
	for _, fact := range list {
		if fact[1] != "" {
			rows = append(rows, fact[:])
		}
	}
	a.align(rows)
}

func (a *app) align(rows [][]string) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, oneLine(cell, cellRunes))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // as with every print to stdout
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plural counts things, by a noun whose plural ends in s.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func tokens(n *uint64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// usageTable prints tokens per agent and route.
func (a *app) usageTable(list []control.UsageView) {
	var rows [][]string
	for _, u := range list {
		route := u.Route
		if u.Scripted {
			route += " (scripted)"
		}
		rows = append(rows, []string{u.Agent, route, u.Model, fmt.Sprint(u.Requests), tokens(u.InputTokens), tokens(u.CachedTokens), tokens(u.OutputTokens)})
	}
	a.table([]string{"AGENT", "ROUTE", "MODEL", "REQUESTS", "TOKENS IN", "CACHED", "TOKENS OUT"}, rows)
}
