package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Spec: R011, R030, A054, A056 on sessions: each damage is refused by name, in
// place and untouched, and the neighbour goes on.
func TestDamagedSession(t *testing.T) {
	const schema, identity = "unsupported session state schema", "session state identity mismatch"
	setPayload := func(from, to string) string {
		return fmt.Sprintf("UPDATE sessions SET payload = replace(payload, '%s', '%s') WHERE session_id = 'bad'", from, to)
	}
	for name, tc := range map[string]struct{ sql, want string }{
		"schema 1":               {"UPDATE sessions SET schema_version = 1 WHERE session_id = 'bad'", schema},
		"schema 1.5":             {"UPDATE sessions SET schema_version = 1.5 WHERE session_id = 'bad'", schema},
		"schema text":            {"UPDATE sessions SET schema_version = '2' WHERE session_id = 'bad'", schema},
		"schema blob":            {"UPDATE sessions SET schema_version = x'02' WHERE session_id = 'bad'", schema},
		"schema null":            {"UPDATE sessions SET schema_version = NULL WHERE session_id = 'bad'", schema},
		"payload schema true":    {setPayload(`"schema_version":2`, `"schema_version":true`), schema},
		"payload schema 2.0":     {setPayload(`"schema_version":2`, `"schema_version":2.0`), schema},
		"payload schema null":    {setPayload(`"schema_version":2`, `"schema_version":null`), schema},
		"payload without schema": {setPayload(`"schema_version":2,`, ``), schema},
		"package":                {"UPDATE sessions SET package_version = '7.0.0' WHERE session_id = 'bad'", "persistent session package must be"},
		"payload package":        {setPayload(`"package_version":"1.0.0"`, `"package_version":"7.0.0"`), "persistent session package must be"},
		"payload list":           {"UPDATE sessions SET payload = '[]' WHERE session_id = 'bad'", "session state root must be an object"},
		"payload null":           {"UPDATE sessions SET payload = NULL WHERE session_id = 'bad'", "session state root must be an object"},
		"payload blob":           {"UPDATE sessions SET payload = x'7b7d' WHERE session_id = 'bad'", "session state root must be an object"},
		"payload JSON null":      {"UPDATE sessions SET payload = 'null' WHERE session_id = 'bad'", "session state root must be an object"},
		"payload cut":            {"UPDATE sessions SET payload = substr(payload, 1, 40) WHERE session_id = 'bad'", "session state root must be an object"},
		"duplicate key":          {setPayload(`"schema_version":2`, `"schema_version":2,"schema_version":2`), "session state root must be an object"},
		"other id in payload":    {setPayload(`"session_id":"bad"`, `"session_id":"good"`), identity},
		"retired key":            {setPayload(`"run_sequence":1`, `"run_sequence":1,"root_execution_policy_enforced":true`), "retired fields: root_execution_policy_enforced"},
		"key in other case":      {setPayload(`"profile_id"`, `"Profile_ID"`), "retired fields: Profile_ID"},
		"sequence 2":             {setPayload(`"run_sequence":1`, `"run_sequence":2`), "sequence must be exactly 1"},
		"sequence true":          {setPayload(`"run_sequence":1`, `"run_sequence":true`), "sequence must be exactly 1"},
		"wrong type inside":      {setPayload(`"workspace":"/work/bad"`, `"workspace":7`), "session state is invalid"},
		"status apart":           {"UPDATE sessions SET status = 'running' WHERE session_id = 'bad'", "column status and payload differ"},
		"workspace apart":        {"UPDATE sessions SET workspace = '/elsewhere' WHERE session_id = 'bad'", "column workspace and payload differ"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := open(t)
			seed(t, s, "good")
			seed(t, s, "bad")
			weaken(t, path, "sessions")
			damage(t, path, tc.sql)
			before := dump(t, path, "sessions")
			view(t, s, func(tx *store.Tx) error {
				_, err := tx.Session("bad")
				wantError(t, "Session", err, core.KindValue, tc.want)
				if err != nil && !strings.Contains(err.Error(), `"bad"`) {
					t.Errorf("Session = %v, want the session named", err)
				}
				list, err := tx.Sessions(store.SessionFilter{})
				if err == nil && (len(list) != 1 || list[0].SessionID != "good") {
					t.Errorf("Sessions = %v, want the good one alone", list)
				}
				return err
			})
			rec := session("bad")
			rec.Status = core.SessionFailed
			err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutSession(rec) })
			wantError(t, "PutSession over it", err, core.KindValue, tc.want)
			_, err = s.TakeOver(t.Context(), "bad")
			wantError(t, "TakeOver of it", err, core.KindValue, tc.want)
			if after := dump(t, path, "sessions"); after != before {
				t.Errorf("the row changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// Spec: R030 (an unknown column that holds something).
func TestRetiredColumn(t *testing.T) {
	s, path := open(t)
	seed(t, s, "good")
	seed(t, s, "bad")
	damage(t, path, "ALTER TABLE sessions ADD COLUMN root_execution_host TEXT",
		"UPDATE sessions SET root_execution_host = 'app_server' WHERE session_id = 'bad'")
	view(t, s, func(tx *store.Tx) error {
		_, err := tx.Session("bad")
		wantError(t, "Session", err, core.KindValue, "retired fields: root_execution_host")
		_, err = tx.Session("good")
		return err
	})
}

// Spec: R012 (strict listing), as restated: a row of another package fails it
// unless its status is terminal.
func TestStrictSessions(t *testing.T) {
	for status, fails := range map[core.SessionStatus]bool{
		core.SessionRunning: true, core.SessionSuspended: true, "bogus": true,
		core.SessionCompleted: false, core.SessionStopped: false,
	} {
		s, path := open(t)
		seed(t, s, "good")
		seed(t, s, "bad")
		damage(t, path, "UPDATE sessions SET package_version = '7.0.0', status = '"+string(status)+"' WHERE session_id = 'bad'")
		view(t, s, func(tx *store.Tx) error {
			list, err := tx.Sessions(store.SessionFilter{Strict: true})
			if fails {
				wantError(t, "strict Sessions with a "+string(status)+" row", err, core.KindRuntime, "invalid session state")
				return nil
			}
			if err == nil && (len(list) != 1 || list[0].SessionID != "good") {
				t.Errorf("strict Sessions with a %s row = %v, want the good one", status, list)
			}
			return err
		})
	}
}

// Spec: R030 on runs.
func TestDamagedRun(t *testing.T) {
	const sequence = "sequence must be exactly 1"
	for name, tc := range map[string]struct{ sql, want string }{
		"sequence 2":          {"UPDATE runs SET sequence = 2", sequence},
		"sequence 1.5":        {"UPDATE runs SET sequence = 1.5", sequence},
		"sequence text":       {"UPDATE runs SET sequence = '1'", sequence},
		"sequence blob":       {"UPDATE runs SET sequence = x'01'", sequence},
		"sequence null":       {"UPDATE runs SET sequence = NULL", sequence},
		"payload sequence":    {`UPDATE runs SET payload = replace(payload, '"sequence":1', '"sequence":true')`, sequence},
		"kind":                {"UPDATE runs SET kind = 'resume'", "run kind must be initial"},
		"payload kind":        {`UPDATE runs SET payload = replace(payload, '"kind":"initial"', '"kind":"resume"')`, "run kind must be initial"},
		"schema":              {"UPDATE runs SET schema_version = 1", "unsupported run state schema"},
		"identity":            {"UPDATE runs SET run_id = 'other'", "run state identity mismatch"},
		"another session's":   {`UPDATE runs SET payload = replace(payload, '"session_id":"s1"', '"session_id":"s2"')`, "run state identity mismatch"},
		"retired key":         {`UPDATE runs SET payload = replace(payload, '"sequence"', '"old":1,"sequence"')`, "retired fields: old"},
		"payload not objects": {"UPDATE runs SET payload = '7'", "run state root must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := open(t)
			seed(t, s, "s1")
			weaken(t, path, "runs")
			damage(t, path, tc.sql)
			view(t, s, func(tx *store.Tx) error {
				_, err := tx.RunOf("s1")
				wantError(t, "RunOf", err, core.KindValue, tc.want)
				return nil
			})
		})
	}
}

// Spec: R029, R031 (store half): a session has exactly its one run.
func TestOneRun(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	second := run("s1")
	second.RunID = "run-000001-second"
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.InsertRun(second) })
	wantError(t, "a second run", err, core.KindRuntime, "has run run-000001-s1 already")
	for _, statement := range []string{
		"DROP INDEX runs_one_a_session",
		"INSERT INTO runs SELECT 'run-000001-second', session_id, schema_version, package_version, sequence, kind, status, replace(payload, 'run-000001-s1', 'run-000001-second') FROM runs",
	} {
		damage(t, path, statement)
	}
	view(t, s, func(tx *store.Tx) error {
		_, err := tx.RunOf("s1")
		wantError(t, "RunOf with two runs", err, core.KindRuntime, "exactly its one active run")
		return nil
	})
	damage(t, path, "DELETE FROM runs")
	view(t, s, func(tx *store.Tx) error {
		_, err := tx.RunOf("s1")
		wantError(t, "RunOf without a run", err, core.KindRuntime, "exactly its one active run")
		return nil
	})
	for want, bad := range map[string]store.Run{
		"sequence must be exactly 1": {RunID: "r", SessionID: "s1", Sequence: 2, Kind: "initial"},
		"run kind must be initial":   {RunID: "r", SessionID: "s1", Sequence: 1, Kind: "resume"},
	} {
		err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.InsertRun(&bad) })
		wantError(t, "InsertRun", err, core.KindValue, want)
	}
}

// Spec: A056 on jobs: skipped by a listing, named by a strict one.
func TestDamagedJob(t *testing.T) {
	for name, tc := range map[string]struct{ sql, want string }{
		"identity":     {`UPDATE jobs SET payload = replace(payload, '"job_id":"j-bad"', '"job_id":"j-good"') WHERE job_id = 'j-bad'`, "job state identity mismatch"},
		"agent ref":    {`UPDATE jobs SET agent_ref = 'ar_other' WHERE job_id = 'j-bad'`, "job state identity mismatch"},
		"session":      {`UPDATE jobs SET session_id = 'good' WHERE job_id = 'j-bad'`, "job state identity mismatch"},
		"schema":       {"UPDATE jobs SET schema_version = 3 WHERE job_id = 'j-bad'", "unsupported job state schema"},
		"package":      {"UPDATE jobs SET package_version = '7.0.0' WHERE job_id = 'j-bad'", "persistent job package must be"},
		"retired":      {`UPDATE jobs SET payload = replace(payload, '"depth"', '"timeout_seconds":1,"depth"') WHERE job_id = 'j-bad'`, "retired fields: timeout_seconds"},
		"status apart": {"UPDATE jobs SET status = 'completed' WHERE job_id = 'j-bad'", "column status and payload differ"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := open(t)
			seed(t, s, "good")
			seed(t, s, "bad")
			damage(t, path, tc.sql)
			view(t, s, func(tx *store.Tx) error {
				_, err := tx.Job("j-bad")
				wantError(t, "Job", err, core.KindValue, tc.want)
				_, err = tx.Jobs(store.JobFilter{Strict: true})
				wantError(t, "strict Jobs", err, core.KindValue, tc.want)
				list, err := tx.Jobs(store.JobFilter{})
				if err == nil && (len(list) != 1 || list[0].JobID != "j-good") {
					t.Errorf("Jobs = %v, want the good one alone", list)
				}
				return err
			})
		})
	}
}

// A row of an agent run, gateway, input, launch or capability that can't be
// read fails its reading, and is not written over.
func TestDamagedOthers(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	update(t, s, func(tx *store.Tx) error {
		return all(
			tx.PutGateway(&store.Gateway{GatewayHash: "g1", Status: "running", Process: store.Process{PID: 7, StartToken: "t", BootID: "b"}}),
			tx.AppendInput(input("in-1", "ar_root-s1")),
			tx.PutLaunch(&store.Launch{LaunchID: "l1", SessionID: "s1", Owner: "ar_root-s1", Role: "host", IntentAt: created}),
			tx.PutCapability(&store.Capability{TokenSHA256: strings.Repeat("a", 64), SessionID: "s1", AgentRef: "ar_root-s1", Kind: "caller", CreatedAt: created}),
		)
	})
	for table, id := range map[string]string{
		"agent_runs": "host_pid = 4711", "gateways": "pid = 4711", "inputs": "state = 'sent'",
		"launches": "role = 'other'", "capabilities": "revoked = 1",
	} {
		damage(t, path, "UPDATE "+table+" SET "+id)
	}
	calls := map[string]func(*store.Tx) error{
		"AgentRun":  func(tx *store.Tx) error { _, err := tx.AgentRun("ar_root-s1"); return err },
		"AgentRuns": func(tx *store.Tx) error { _, err := tx.AgentRuns("s1"); return err },
		"Gateway":   func(tx *store.Tx) error { _, err := tx.Gateway("g1"); return err },
		"Inputs":    func(tx *store.Tx) error { _, err := tx.Inputs("ar_root-s1"); return err },
		"Launches":  func(tx *store.Tx) error { _, err := tx.Launches(store.LaunchFilter{}); return err },
		"CapabilityByHash": func(tx *store.Tx) error {
			_, err := tx.CapabilityByHash(strings.Repeat("a", 64))
			return err
		},
		"PutAgentRun": func(tx *store.Tx) error { return tx.PutAgentRun(agentRun("ar_root-s1", "s1", "")) },
		"PutGateway":  func(tx *store.Tx) error { return tx.PutGateway(&store.Gateway{GatewayHash: "g1", Status: "stopped"}) },
	}
	for name, call := range calls {
		err := s.Update(t.Context(), call)
		wantError(t, name, err, core.KindValue, "and payload differ")
	}
}
