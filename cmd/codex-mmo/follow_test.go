package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// followed runs follow on a session at work whose supervisor answers with
// serve, and returns what came of it with what was printed on stderr.
func followed(t *testing.T, serve func(n int, emit func(control.FollowEvent) error) error) (view *control.SessionView, said string, asked int, err error) {
	t.Helper()
	place := testkit.NewPlace(t)
	f := folders.Folders{Config: place.Config, State: place.State, Runtime: place.Runtime}
	rec := &store.Session{
		SessionID: "s-1", ProfileID: "demo", ProfileVersion: "1", Kind: "noninteractive", Workspace: place.Workspace, RootAgent: "lead",
		Status: core.SessionRunning, RunSequence: 1, CreatedAt: time.Now(), LastActiveAt: time.Now(),
	}
	st, err := store.Open(t.Context(), f.Database(), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = st.Update(t.Context(), func(tx *store.Tx) error { return tx.PutSession(rec) })
	if err := errors.Join(err, st.Close(), os.Mkdir(f.RuntimeDir(rec.SessionID), 0o700)); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int32
	controltest.Start(t, f.ControlSocket(rec.SessionID), &controltest.Handler{
		OnFollow: func(_ context.Context, _ control.Call, _ control.FollowRequest, emit func(control.FollowEvent) error) error {
			return serve(int(calls.Add(1)), emit)
		},
	})
	var out, errs bytes.Buffer
	a := &app{getenv: func(string) string { return "" }, out: &out, err: &errs}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	view, err = a.follow(ctx, f, rec)
	return view, errs.String(), int(calls.Load()), err
}

// TestFollowGivesUpOnARefusalThatStays: exec asks a bounded number of times,
// says so once, and names what can be done.
func TestFollowGivesUpOnARefusalThatStays(t *testing.T) {
	t.Parallel()
	_, said, asked, err := followed(t, func(int, func(control.FollowEvent) error) error {
		return core.Errorf(core.KindPermission, "not for you").WithRemedy("ask somebody else")
	})
	if asked != maxRefusals {
		t.Errorf("the supervisor was asked %d times, want %d", asked, maxRefusals)
	}
	if kind := core.KindOf(err); kind != core.KindPermission {
		t.Fatalf("follow = %v of kind %s, want %s", err, kind, core.KindPermission)
	}
	for _, want := range []string{"session s-1 works on", "not for you", "ask somebody else", "codex-mmo status s-1", "codex-mmo stop s-1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("follow = %q, want %q in it", err, want)
		}
	}
	if got := strings.Count(said, "not for you"); got != 1 {
		t.Errorf("stderr tells of the refusal %d times, want once:\n%s", got, said)
	}
}

// TestFollowGoesOnAfterABreak: a stream that ended before its session is begun
// again.
func TestFollowGoesOnAfterABreak(t *testing.T) {
	t.Parallel()
	view, said, asked, err := followed(t, func(n int, emit func(control.FollowEvent) error) error {
		if n < 3 {
			return core.Errorf(core.KindUnavailable, "going down")
		}
		done := &control.SessionView{SessionID: "s-1", Status: string(core.SessionCompleted)}
		return emit(control.FollowEvent{Seq: 1, Type: "session", Status: done.Status, Session: done})
	})
	if err != nil || view == nil || view.Status != string(core.SessionCompleted) {
		t.Errorf("follow = %+v, %v, want the completed session", view, err)
	}
	if asked != 3 || strings.Count(said, "going down") != 1 {
		t.Errorf("the supervisor was asked %d times, want 3, and stderr should tell once why:\n%s", asked, said)
	}
}

func TestSetbacks(t *testing.T) {
	refused, away := core.Errorf(core.KindRuntime, "no"), core.Errorf(core.KindUnavailable, "away")
	type end struct {
		err   error
		lived time.Duration
		pause time.Duration
		news  bool
		more  bool
	}
	tests := map[string][]end{
		"a refusal that stays": {
			{refused, 0, 50 * time.Millisecond, true, true},
			{refused, 0, 100 * time.Millisecond, false, true},
			{refused, 0, 200 * time.Millisecond, false, true},
			{refused, 0, 400 * time.Millisecond, false, true},
			{refused, 0, 800 * time.Millisecond, false, false},
		},
		"two that take turns are no progress": {
			{refused, 0, 50 * time.Millisecond, true, true},
			{away, 0, 100 * time.Millisecond, true, true},
			{refused, 0, 200 * time.Millisecond, true, true},
			{away, 0, 400 * time.Millisecond, true, true},
			{refused, 0, 800 * time.Millisecond, true, false},
		},
		"a stream that lived begins anew": {
			{away, 0, 50 * time.Millisecond, true, true},
			{away, settled - 1, 100 * time.Millisecond, false, true},
			{away, settled, 50 * time.Millisecond, true, true},
		},
	}
	for name, ends := range tests {
		t.Run(name, func(t *testing.T) {
			var s setbacks
			for i, e := range ends {
				pause, news, more := s.add(e.err, e.lived)
				if pause != e.pause || news != e.news || more != e.more {
					t.Errorf("end %d: add = %v, %v, %v, want %v, %v, %v", i, pause, news, more, e.pause, e.news, e.more)
				}
			}
		})
	}
	var s setbacks
	n, more := 0, true
	for more {
		var pause time.Duration
		if pause, _, more = s.add(away, 0); pause > lastPause {
			t.Fatalf("pause = %v, want at most %v", pause, lastPause)
		}
		n++
	}
	if n != maxAbsences {
		t.Errorf("an absent supervisor is waited for %d times, want %d", n, maxAbsences)
	}
}
