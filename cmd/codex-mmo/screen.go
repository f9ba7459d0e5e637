package main

import (
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// screen turns the events of a session into lines for a person, on stderr.
type screen struct {
	app    *app
	start  time.Time
	status string
	jobs   map[string]string // job id -> last status shown
}

func newScreen(a *app) *screen {
	return &screen{app: a, start: time.Now(), jobs: map[string]string{}}
}

func (s *screen) show(e control.FollowEvent) {
	switch e.Type {
	case "session":
		if e.Status != s.status {
			s.status = e.Status
			s.line("session", e.Status)
		}
	case "job":
		if s.jobs[e.JobID] != e.Status {
			s.jobs[e.JobID] = e.Status
			s.line(e.Agent, e.Status)
		}
	case "message":
		s.line(e.Agent, "says: "+e.Text)
	default:
		if e.Text != "" {
			s.line(e.Agent, e.Text)
		}
	}
}

func (s *screen) line(who, what string) {
	if who == "" {
		who = "-"
	}
	s.app.notice("%6.1fs  %-9s  %s", time.Since(s.start).Seconds(), oneLine(who, noteRunes), oneLine(what, cellRunes))
}
