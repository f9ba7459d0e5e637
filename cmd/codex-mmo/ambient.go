package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// lead makes the MCP client that started us the root of a team. It implements
// mcpserver.Lead.
type lead struct {
	app     *app
	options sessionOptions
	session string // that was asked for; empty: one that waits, or a new one
	fresh   bool   // a new one, whatever waits

	mu     sync.Mutex
	snap   *profile.Snapshot // of the team, once it was asked for
	joined string            // session that we lead; empty: none yet
}

var _ mcpserver.Lead = (*lead)(nil)

// newLead checks what can be checked before a client asks for anything.
func (a *app) newLead(o sessionOptions, session string, fresh bool) (*lead, error) {
	switch {
	case o.sandbox != "":
		return nil, usagef("--sandbox is of a root that we start: here the MCP client is the root, in its own sandbox")
	case session != "" && fresh:
		return nil, usagef("--session and --new cannot be combined")
	case session != "" && (o.profile != "" || o.snapshot != ""):
		return nil, usagef("--session and --profile cannot be combined: the session has its team")
	case session != "" && !core.ValidID(session):
		return nil, usagef("%q is not the id of a session; see `codex-mmo sessions`", session)
	}
	return &lead{app: a, options: o, session: session, fresh: fresh}, a.outside()
}

// Caller tells what the root of the team may do.
func (l *lead) Caller(ctx context.Context) (*control.CallerResponse, error) {
	f, err := l.app.folders()
	if err != nil {
		return nil, err
	}
	snap, err := l.team(ctx, f)
	if err != nil {
		return nil, err
	}
	return supervisor.RootCaller(snap), nil
}

// team compiles the profile, or reads the snapshot of the session that was asked
// for.
func (l *lead) team(ctx context.Context, f folders.Folders) (*profile.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snap != nil {
		return l.snap, nil
	}
	in, err := l.app.createInput(f, &l.options, "", supervisor.KindAmbient)
	if err != nil {
		return nil, err
	}
	if l.session != "" {
		rec, err := l.app.readSession(ctx, f, l.session)
		if err != nil {
			return nil, err
		}
		in.Snapshot = rec.SnapshotHash
	}
	l.snap, err = supervisor.Team(ctx, in)
	return l.snap, err
}

// Join takes up the session that waits for this client, or starts one.
func (l *lead) Join(ctx context.Context, client string, start bool) (*control.Client, string, error) {
	f, err := l.app.folders()
	if err != nil {
		return nil, "", err
	}
	rec, notice, err := l.find(ctx, f)
	if err != nil {
		return nil, "", err
	}
	if rec == nil {
		if !start {
			return nil, "", nil
		}
		in, err := l.app.createInput(f, &l.options, "", supervisor.KindAmbient)
		if err != nil {
			return nil, "", err
		}
		if rec, err = supervisor.Create(ctx, in); err != nil {
			return nil, "", err
		}
		notice += fmt.Sprintf("[session] You lead the new session %s of team %s.", rec.SessionID, rec.ProfileID)
	}
	operator, err := l.app.bringBack(ctx, f, rec)
	if err != nil {
		return nil, "", err
	}
	answer, err := operator.Join(ctx, control.JoinRequest{ClientName: client})
	if err != nil {
		return nil, "", err
	}
	l.mu.Lock()
	l.joined = rec.SessionID
	l.mu.Unlock()
	root := control.Dial(f.ControlSocket(rec.SessionID), &control.ClientOptions{
		Build: build(), Token: access.Token(answer.Token), Retry: mcpserver.Patience,
	})
	if news, err := root.News(ctx, control.Meta{}); err == nil && news.Text != "" {
		notice += "\n" + news.Text
	}
	return root, strings.TrimSpace(notice), nil
}

// find returns the session to go on with, nil when there is none, and what the
// model is to know of it.
func (l *lead) find(ctx context.Context, f folders.Folders) (*store.Session, string, error) {
	l.mu.Lock()
	joined := l.joined
	l.mu.Unlock()
	notice := ""
	if joined != "" {
		rec, err := l.app.readSession(ctx, f, joined)
		if err != nil {
			return nil, "", err
		}
		if !rec.Status.Terminal() {
			return rec, "", nil
		}
		notice = fmt.Sprintf("[session] Your session %s has ended: it is %s.\n", joined, rec.Status)
	} else if l.session != "" {
		rec, err := l.app.readSession(ctx, f, l.session)
		return rec, fmt.Sprintf("[session] You go on with session %s.", l.session), err
	}
	if l.fresh {
		return nil, notice, nil
	}
	waiting, err := l.waiting(ctx, f)
	if err != nil || len(waiting) == 0 {
		return nil, notice, err
	}
	notice += fmt.Sprintf("[session] You go on with session %s, whose last client left it.", waiting[0].SessionID)
	if len(waiting) > 1 {
		var others []string
		for _, rec := range waiting[1:] {
			others = append(others, rec.SessionID)
		}
		notice += fmt.Sprintf(" Others wait as well: %s; a person can choose one with `codex-mmo mcp --session ID`.", strings.Join(others, ", "))
	}
	return waiting[0], notice, nil
}

// waiting lists the sessions of the team in this workspace that have no client.
func (l *lead) waiting(ctx context.Context, f folders.Folders) (found []*store.Session, err error) {
	snap, err := l.team(ctx, f)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(l.options.cwd)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, core.Errorf(core.KindNotFound, "workspace %s: %w", l.options.cwd, err).WithRemedy("name an existing folder with --cwd")
	}
	err = l.app.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) (err error) {
			found, err = supervisor.FindAmbient(tx, dir, snap.ProfileID)
			return err
		})
	})
	if core.KindOf(err) == core.KindNotFound {
		return nil, nil // no session was ever started here
	}
	return found, err
}
