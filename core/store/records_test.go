package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

func input(id, ref string) *store.Input {
	return &store.Input{
		InputID: id, SessionID: "s1", AgentRef: ref, Origin: "task", Text: "do it",
		State: store.InputIntended, CreatedAt: created,
	}
}

// What is written is what is read, for every kind of record.
func TestRoundTrip(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	later := created.Add(time.Hour)
	rec := session("s1")
	rec.Status, rec.StartedAt, rec.SnapshotHash = core.SessionRunning, &later, "abc"
	rec.RouteFaults = map[string]string{"r": "timeout"}
	rec.RouteAvailability = map[string]store.Availability{"r": {Reason: "injected route fault: timeout", Fault: "timeout"}}
	rec.Failure = &store.Failure{Kind: "turn_failed", Message: "<&> \u2028 \"quoted\"", Retryable: true}
	work := job("j-s1", "s1")
	work.Status, work.WriteScope, work.Usage = core.JobRunning, []string{"a/b"}, &store.TokenUsage{InputTokens: 1 << 60}
	root := agentRun("ar_root-s1", "s1", "")
	root.Handle, root.Generation, root.EventSeq = []byte{0, 1, 255}, 3, 1<<63+1
	root.Host = store.HostRef{Instance: "i", Process: store.Process{PID: 5, StartToken: "st", BootID: "b"}, Socket: "/s", Protocol: 1}
	root.Engine = store.Process{PID: 6, StartToken: "st6", BootID: "b", Command: "codex app-server"}
	gateway := &store.Gateway{GatewayHash: "g1", Instance: "i", Status: "running", BaseURL: "http://127.0.0.1:1/v1", StartedAt: created}
	launch := &store.Launch{LaunchID: "l1", Owner: "g1", Role: "gateway", IntentAt: created, EndedAt: &later}
	update(t, s, func(tx *store.Tx) error {
		return all(tx.PutSession(rec), tx.PutJob(work), tx.PutAgentRun(root), tx.PutGateway(gateway), tx.PutLaunch(launch))
	})
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s = reopen(t, path)
	view(t, s, func(tx *store.Tx) error {
		gotSession, err1 := tx.Session("s1")
		gotJob, err2 := tx.Job("j-s1")
		gotRoot, err3 := tx.AgentRun("ar_root-s1")
		gotGateway, err4 := tx.Gateway("g1")
		gotLaunches, err5 := tx.Launches(store.LaunchFilter{Role: "gateway"})
		for want, got := range map[any]any{rec: gotSession, work: gotJob, root: gotRoot, gateway: gotGateway} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("record differs (-written +read):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]*store.Launch{launch}, gotLaunches); diff != "" {
			t.Errorf("launches differ (-written +read):\n%s", diff)
		}
		return all(err1, err2, err3, err4, err5)
	})
	if rec.SchemaVersion != store.SchemaVersion || rec.PackageVersion != store.StatePackage {
		t.Errorf("PutSession left versions %d and %q", rec.SchemaVersion, rec.PackageVersion)
	}
}

func TestRefusedRecords(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	for name, tc := range map[string]struct {
		put  func(*store.Tx) error
		want string
	}{
		"session id":     {func(tx *store.Tx) error { return tx.PutSession(session("../s")) }, "can't be the id of a session"},
		"session status": {func(tx *store.Tx) error { r := session("s2"); r.Status = "odd"; return tx.PutSession(r) }, "is not a status"},
		"session sequence": {func(tx *store.Tx) error {
			r := session("s2")
			r.RunSequence = 2
			return tx.PutSession(r)
		}, "sequence must be exactly 1"},
		"foreign package": {func(tx *store.Tx) error {
			r := session("s2")
			r.SchemaVersion, r.PackageVersion = store.SchemaVersion, "7.0.0"
			return tx.PutSession(r)
		}, "does not write"},
		"job id":     {func(tx *store.Tx) error { return tx.PutJob(job("", "s1")) }, "can't be the id of a job"},
		"job status": {func(tx *store.Tx) error { r := job("j2", "s1"); r.Status = "odd"; return tx.PutJob(r) }, "is not a status"},
		"job mode":   {func(tx *store.Tx) error { r := job("j2", "s1"); r.Mode = "any"; return tx.PutJob(r) }, "CHECK constraint"},
		"job moves":  {func(tx *store.Tx) error { return all(tx.PutSession(session("s2")), tx.PutJob(job("j-s1", "s2"))) }, "belongs to session s1"},
		"run moves":  {func(tx *store.Tx) error { return tx.PutAgentRun(agentRun("ar_root-s1", "s1", "j-s1")) }, "belongs to session s1"},
		"input state": {func(tx *store.Tx) error {
			i := input("in-1", "ar_root-s1")
			i.State = store.InputSent
			return tx.AppendInput(i)
		}, "begins as intended"},
		"invalid text": {func(tx *store.Tx) error {
			r := session("s1")
			r.Error = "\xff"
			return tx.PutSession(r)
		}, "can't be written as JSON"},
	} {
		err := s.Update(t.Context(), tc.put)
		wantError(t, name, err, core.KindValue, tc.want)
	}
	for name, get := range map[string]func(*store.Tx) error{
		"Session":          func(tx *store.Tx) error { _, err := tx.Session("none"); return err },
		"Job":              func(tx *store.Tx) error { _, err := tx.Job("none"); return err },
		"AgentRun":         func(tx *store.Tx) error { _, err := tx.AgentRun("none"); return err },
		"Gateway":          func(tx *store.Tx) error { _, err := tx.Gateway("none"); return err },
		"CapabilityByHash": func(tx *store.Tx) error { _, err := tx.CapabilityByHash("none"); return err },
		"TelemetryCursor":  func(tx *store.Tx) error { _, err := tx.TelemetryCursor("none"); return err },
	} {
		wantError(t, name, s.View(t.Context(), get), core.KindNotFound, "no ")
	}
}

// Every status change is allowed by core's table or refused, and the run
// mirrors the session.
func TestTransitions(t *testing.T) {
	s, _ := open(t)
	statuses := slices.Sorted(maps.Keys(core.SessionTransitions()))
	jobStatuses := slices.Sorted(maps.Keys(core.JobTransitions()))
	number := 0
	rapid.Check(t, func(r *rapid.T) {
		number++
		id := fmt.Sprintf("s%d", number)
		rec, work := session(id), job("j-"+id, id)
		// A refusal comes before any write, so one transaction holds them all.
		update(t, s, func(tx *store.Tx) error {
			if err := all(tx.PutSession(rec), tx.InsertRun(run(id)), tx.PutJob(work)); err != nil {
				return err
			}
			for range rapid.IntRange(1, 12).Draw(r, "steps") {
				old := rec.Status
				rec.Status = rapid.SampledFrom(statuses).Draw(r, "session status")
				allowed := rec.Status == old || old.CanBecome(rec.Status)
				if err := tx.PutSession(rec); (err == nil) != allowed {
					r.Fatalf("session from %s to %s: %v, want allowed %t", old, rec.Status, err, allowed)
				} else if !allowed {
					rec.Status = old
				}
				oldWork := work.Status
				work.Status = rapid.SampledFrom(jobStatuses).Draw(r, "job status")
				allowed = work.Status == oldWork || oldWork.CanBecome(work.Status)
				if err := tx.PutJob(work); (err == nil) != allowed {
					r.Fatalf("job from %s to %s: %v, want allowed %t", oldWork, work.Status, err, allowed)
				} else if !allowed {
					work.Status = oldWork
				}
				mirror, err := tx.RunOf(id)
				if err != nil {
					return err
				}
				if mirror.Status != rec.Status {
					r.Fatalf("the run is %s, want %s", mirror.Status, rec.Status)
				}
			}
			return nil
		})
	})
}

// An input is sent at most once: no state leads back to intended.
func TestInputs(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	first, second := input("in-1", "ar_root-s1"), input("in-2", "ar_root-s1")
	other := input("in-3", "ar_j-s1")
	update(t, s, func(tx *store.Tx) error {
		return all(tx.AppendInput(first), tx.AppendInput(second), tx.AppendInput(other))
	})
	if first.Seq != 1 || second.Seq != 2 || other.Seq != 1 {
		t.Errorf("inputs were numbered %d, %d and %d, want 1, 2 and 1", first.Seq, second.Seq, other.Seq)
	}
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.AppendInput(input("in-1", "ar_root-s1")) })
	wantError(t, "an input again", err, core.KindValue, "is there already")
	put := func(in *store.Input, state store.InputState) error {
		c := *in
		c.State = state
		return s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutInput(&c) })
	}
	for _, step := range []struct {
		state store.InputState
		ok    bool
	}{
		{store.InputApplied, false},
		{store.InputSent, true},
		{store.InputIntended, false},
		{store.InputSent, true},
		{store.InputApplied, true},
		{store.InputSent, false},
		{store.InputLost, false},
		{store.InputTurnDone, true},
		{store.InputTurnLost, false},
		{store.InputIntended, false},
	} {
		if err := put(first, step.state); (err == nil) != step.ok {
			t.Errorf("input to %s: %v, want allowed %t", step.state, err, step.ok)
		}
	}
	rewritten := *second
	rewritten.Text = "do something else"
	err = s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutInput(&rewritten) })
	wantError(t, "a rewritten input", err, core.KindValue, "can't be rewritten")
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.Inputs("ar_root-s1")
		if err == nil && (len(list) != 2 || list[0].State != store.InputTurnDone || list[1].Text != "do it") {
			t.Errorf("Inputs = %+v", list)
		}
		return err
	})
}

func TestCapabilities(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	token := func(c string) *store.Capability {
		return &store.Capability{TokenSHA256: strings.Repeat(c, 64), SessionID: "s1", AgentRef: "ar_root-s1", Kind: "caller", CreatedAt: created}
	}
	revoked := created.Add(time.Minute)
	update(t, s, func(tx *store.Tx) error { return all(tx.PutCapability(token("a")), tx.PutCapability(token("b"))) })
	update(t, s, func(tx *store.Tx) error {
		list, err := tx.Capabilities("ar_root-s1")
		if len(list) != 2 {
			t.Errorf("Capabilities = %d tokens, want 2", len(list))
		}
		for _, c := range list {
			c.RevokedAt = &revoked
			err = errors.Join(err, tx.PutCapability(c))
		}
		return err
	})
	view(t, s, func(tx *store.Tx) error {
		c, err := tx.CapabilityByHash(strings.Repeat("b", 64))
		if err == nil && (c.RevokedAt == nil || !c.RevokedAt.Equal(revoked)) {
			t.Errorf("CapabilityByHash = %+v, want it revoked", c)
		}
		return err
	})
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutCapability(token("a")) })
	wantError(t, "a revoked token again", err, core.KindRuntime, "can't be given out again")
	if err != nil && strings.Contains(err.Error(), "aaaa") {
		t.Errorf("the refusal %q has the token's hash in it", err)
	}
}

func TestAuditAndUsage(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	seed(t, s, "s2")
	row := func(event string) *store.Audit {
		return &store.Audit{At: created, Event: event, SessionID: "s1", RunID: "r", Details: map[string]any{"n": "1"}}
	}
	first, second := row("run_started"), row("agent_started")
	second.JobID, second.Caller, second.Details = "j-s1", "lead", nil
	update(t, s, func(tx *store.Tx) error {
		return all(tx.Audit(first), tx.Audit(&store.Audit{At: created, Event: "run_started", SessionID: "s2"}), tx.Audit(second))
	})
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.Audit(row("")) })
	wantError(t, "an audit row without an event", err, core.KindValue, "CHECK constraint")
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.AuditRows("s1", 0, 10)
		second.Details = map[string]any{}
		if diff := cmp.Diff([]*store.Audit{first, second}, list); diff != "" {
			t.Errorf("AuditRows differ (-want +got):\n%s", diff)
		}
		rest, err2 := tx.AuditRows("s1", first.Seq, 1)
		if len(rest) != 1 || rest[0].Seq != second.Seq {
			t.Errorf("AuditRows after %d = %v", first.Seq, rest)
		}
		return all(err, err2)
	})
	if first.Seq >= second.Seq {
		t.Errorf("audit rows were numbered %d and %d", first.Seq, second.Seq)
	}

	n := func(v uint64) *uint64 { return &v }
	usage := func(in, cached *uint64) *store.Usage {
		return &store.Usage{SessionID: "s1", AgentRef: "ar_j-s1", Route: "offline", Model: "m", Requests: 1, InputTokens: in, CachedTokens: cached, Scripted: true}
	}
	update(t, s, func(tx *store.Tx) error {
		return all(
			tx.AddUsage(usage(n(10), nil), 1),
			tx.AddUsage(usage(nil, nil), 2),
			tx.AddUsage(usage(n(5), n(2)), 3),
			tx.AddUsage(usage(n(5), n(2)), 3), // the same again
			tx.AddUsage(usage(n(5), n(2)), 2),
		)
	})
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.UsageOf("s1")
		want := []*store.Usage{{SessionID: "s1", AgentRef: "ar_j-s1", Route: "offline", Model: "m", Requests: 3, InputTokens: n(15), CachedTokens: n(2), Scripted: true}}
		if diff := cmp.Diff(want, list); diff != "" {
			t.Errorf("UsageOf differs (-want +got):\n%s", diff)
		}
		cursor, err2 := tx.TelemetryCursor("s1")
		if cursor != 3 {
			t.Errorf("TelemetryCursor = %d, want 3", cursor)
		}
		return all(err, err2)
	})
}

func TestSpawnKeys(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	seed(t, s, "s2")
	update(t, s, func(tx *store.Tx) error { return tx.PutSpawnKey("s1", "k", []byte(`{"batch_id":"b"}`)) })
	view(t, s, func(tx *store.Tx) error {
		got, found, err := tx.SpawnKey("s1", "k")
		if !found || string(got) != `{"batch_id":"b"}` {
			t.Errorf("SpawnKey = %q, %t", got, found)
		}
		_, other, err2 := tx.SpawnKey("s2", "k")
		if other {
			t.Error("SpawnKey found another session's key")
		}
		return all(err, err2)
	})
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutSpawnKey("s1", "x", []byte(`{`)) })
	wantError(t, "an answer that is no JSON", err, core.KindValue, "CHECK constraint")
}

func TestFilters(t *testing.T) {
	s, _ := open(t)
	seed(t, s, "s1")
	seed(t, s, "s2")
	update(t, s, func(tx *store.Tx) error {
		rec := session("s2")
		rec.Status, rec.LastActiveAt = core.SessionRunning, created.Add(-time.Hour)
		done := job("j-s2", "s2")
		done.Status = core.JobFailed
		return all(tx.PutSession(rec), tx.PutJob(done))
	})
	view(t, s, func(tx *store.Tx) error {
		for name, tc := range map[string]struct {
			filter store.SessionFilter
			want   string
		}{
			"all":       {store.SessionFilter{}, "s1 s2"},
			"status":    {store.SessionFilter{Statuses: []core.SessionStatus{core.SessionRunning, core.SessionPaused}}, "s2"},
			"workspace": {store.SessionFilter{Workspace: "/work/s1"}, "s1"},
			"both":      {store.SessionFilter{Workspace: "/work/s1", Statuses: []core.SessionStatus{core.SessionRunning}}, ""},
			"latest":    {store.SessionFilter{Latest: 1}, "s1"},
		} {
			list, err := tx.Sessions(tc.filter)
			if err != nil {
				return err
			}
			var ids []string
			for _, rec := range list {
				ids = append(ids, rec.SessionID)
			}
			if got := strings.Join(ids, " "); got != tc.want {
				t.Errorf("Sessions by %s = %q, want %q", name, got, tc.want)
			}
		}
		for name, tc := range map[string]struct {
			filter store.JobFilter
			want   string
		}{
			"all":     {store.JobFilter{}, "j-s1 j-s2"},
			"session": {store.JobFilter{SessionID: "s1"}, "j-s1"},
			"status":  {store.JobFilter{Statuses: []core.JobStatus{core.JobFailed}}, "j-s2"},
			"ids":     {store.JobFilter{SessionID: "s1", IDs: []string{"j-s1", "j-s2"}}, "j-s1"},
		} {
			list, err := tx.Jobs(tc.filter)
			if err != nil {
				return err
			}
			var ids []string
			for _, rec := range list {
				ids = append(ids, rec.JobID)
			}
			if got := strings.Join(ids, " "); got != tc.want {
				t.Errorf("Jobs by %s = %q, want %q", name, got, tc.want)
			}
		}
		return nil
	})
}
