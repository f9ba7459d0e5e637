package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Rules of output, for all verbs: results go to stdout, progress and errors to
// stderr; one line says one thing; times are local, to the second; tables have
// a header; with --json stdout holds one JSON value and nothing else.

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }
func (a *app) notice(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
func (a *app) printJSON(v any) error             { return encodeJSON(a, v) }
func clock(t time.Time) string                   { return t.Local().Format(time.DateTime) }

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
	}
	return v
}

// table prints rows under a header, columns aligned.
func (a *app) table(header []string, rows [][]string) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // as with every print to stdout
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
