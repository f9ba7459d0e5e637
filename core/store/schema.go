package store

import (
	"maps"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// migrations hold one step a database version: step i brings version i to
// i+1. Within a state package steps only add.
var migrations = []string{schemaV1, schemaControls, schemaAccounting, schemaActivity}

// schemaV1 is the first layout. Foreign keys are deferred, so that the rows of
// one transaction may be written in any order. Columns lock_key and units
// are the capacity that the holder occupies.
var schemaV1 = `
CREATE TABLE sessions (
	session_id      TEXT PRIMARY KEY NOT NULL,
	schema_version  INTEGER NOT NULL CHECK (schema_version >= 2),
	package_version TEXT NOT NULL,
	status          TEXT NOT NULL CHECK (status IN (` + quoted(core.SessionTransitions()) + `)),
	profile_id      TEXT NOT NULL,
	workspace       TEXT NOT NULL,
	created_at      TEXT NOT NULL,
	last_active_at  TEXT NOT NULL,
	lock_key        TEXT,
	units           INTEGER CHECK (units > 0),
	epoch           INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),
	telemetry       INTEGER NOT NULL DEFAULT 0 CHECK (telemetry >= 0),
	payload         TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE INDEX sessions_by_status ON sessions (status);

CREATE TABLE runs (
	run_id          TEXT PRIMARY KEY NOT NULL,
	session_id      TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	schema_version  INTEGER NOT NULL CHECK (schema_version >= 2),
	package_version TEXT NOT NULL,
	sequence        INTEGER NOT NULL CHECK (sequence = 1),
	kind            TEXT NOT NULL CHECK (kind = 'initial'),
	status          TEXT NOT NULL CHECK (status IN (` + quoted(core.SessionTransitions()) + `)),
	payload         TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE UNIQUE INDEX runs_one_a_session ON runs (session_id);

CREATE TABLE jobs (
	job_id          TEXT PRIMARY KEY NOT NULL,
	session_id      TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	schema_version  INTEGER NOT NULL CHECK (schema_version >= 2),
	package_version TEXT NOT NULL,
	profile_id      TEXT NOT NULL,
	agent_ref       TEXT NOT NULL UNIQUE,
	agent           TEXT NOT NULL,
	status          TEXT NOT NULL CHECK (status IN (` + quoted(core.JobTransitions()) + `)),
	mode            TEXT NOT NULL CHECK (mode IN ('read-only', 'workspace-write')),
	lock_key        TEXT,
	units           INTEGER CHECK (units > 0),
	payload         TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE INDEX jobs_by_session ON jobs (session_id, status);

CREATE TABLE agent_runs (
	agent_ref       TEXT PRIMARY KEY NOT NULL,
	session_id      TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	job_id          TEXT UNIQUE REFERENCES jobs DEFERRABLE INITIALLY DEFERRED,
	schema_version  INTEGER NOT NULL CHECK (schema_version >= 2),
	package_version TEXT NOT NULL,
	retired         INTEGER NOT NULL CHECK (retired IN (0, 1)),
	host_pid        INTEGER,
	host_start      TEXT,
	host_boot       TEXT,
	engine_pid      INTEGER,
	engine_start    TEXT,
	engine_boot     TEXT,
	payload         TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE INDEX agent_runs_by_session ON agent_runs (session_id);

CREATE TABLE inputs (
	input_id   TEXT PRIMARY KEY NOT NULL,
	session_id TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	agent_ref  TEXT NOT NULL REFERENCES agent_runs DEFERRABLE INITIALLY DEFERRED,
	seq        INTEGER NOT NULL CHECK (seq >= 1),
	state      TEXT NOT NULL,
	payload    TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE UNIQUE INDEX inputs_in_order ON inputs (agent_ref, seq);

CREATE TABLE capabilities (
	token_sha256 TEXT PRIMARY KEY NOT NULL CHECK (length(token_sha256) = 64),
	session_id   TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	agent_ref    TEXT NOT NULL REFERENCES agent_runs DEFERRABLE INITIALLY DEFERRED,
	revoked      INTEGER NOT NULL CHECK (revoked IN (0, 1)),
	payload      TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE INDEX capabilities_by_agent ON capabilities (agent_ref);

CREATE TABLE gateways (
	gateway_hash    TEXT PRIMARY KEY NOT NULL,
	schema_version  INTEGER NOT NULL CHECK (schema_version >= 2),
	package_version TEXT NOT NULL,
	status          TEXT NOT NULL CHECK (status IN ('starting', 'running', 'stopped')),
	pid             INTEGER,
	start_token     TEXT,
	boot_id         TEXT,
	payload         TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;

CREATE TABLE launches (
	launch_id  TEXT PRIMARY KEY NOT NULL,
	session_id TEXT REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	owner      TEXT NOT NULL,
	role       TEXT NOT NULL,
	ended      INTEGER NOT NULL CHECK (ended IN (0, 1)),
	payload    TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE INDEX launches_by_session ON launches (session_id, ended);
CREATE INDEX launches_by_owner ON launches (owner, ended);

CREATE TABLE audit (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	at         TEXT NOT NULL,
	event      TEXT NOT NULL CHECK (event <> ''),
	session_id TEXT NOT NULL,
	run_id     TEXT NOT NULL,
	job_id     TEXT,
	caller     TEXT,
	details    TEXT CHECK (json_valid(details))
) STRICT;
CREATE INDEX audit_by_session ON audit (session_id, seq);

CREATE TABLE usage (
	session_id    TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	agent_ref     TEXT NOT NULL,
	route         TEXT NOT NULL,
	model         TEXT NOT NULL,
	requests      INTEGER NOT NULL CHECK (requests >= 0),
	input_tokens  INTEGER CHECK (input_tokens >= 0),
	cached_tokens INTEGER CHECK (cached_tokens >= 0),
	output_tokens INTEGER CHECK (output_tokens >= 0),
	scripted      INTEGER NOT NULL CHECK (scripted IN (0, 1)),
	PRIMARY KEY (session_id, agent_ref, route, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE spawn_keys (
	session_id  TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	request_key TEXT NOT NULL,
	response    TEXT NOT NULL CHECK (json_valid(response)),
	PRIMARY KEY (session_id, request_key)
) STRICT, WITHOUT ROWID;
`

// schemaControls adds the controls that agents were given, by the revision that
// each made.
const schemaControls = `
CREATE TABLE controls (
	control_id TEXT PRIMARY KEY NOT NULL,
	session_id TEXT NOT NULL REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
	agent_ref  TEXT NOT NULL REFERENCES agent_runs DEFERRABLE INITIALLY DEFERRED,
	revision   INTEGER NOT NULL CHECK (revision >= 1),
	status     TEXT NOT NULL CHECK (status IN ('pending', 'applied', 'rejected', 'delivery_unknown')),
	payload    TEXT NOT NULL CHECK (json_valid(payload))
) STRICT;
CREATE UNIQUE INDEX controls_in_order ON controls (agent_ref, revision);
`

// schemaActivity lets the sessions that were active last be found among many.
const schemaActivity = `CREATE INDEX sessions_by_activity ON sessions (last_active_at);`

// schemaAccounting adds what admission counts: the write scopes of jobs as they
// are on disk, and one view over all holders of capacity whose columns every
// release can read, whatever else has changed in the tables below it. The view
// holds nothing of its own, so it can't say anything else than the records do.
//
// A job that writes and has no scopes on record, as of an older layout, has the
// whole workspace. Class live counts only while one of the processes lives,
// class held in any case; whoever has ended is not in it.
var schemaAccounting = `
ALTER TABLE jobs ADD COLUMN scopes TEXT CHECK (json_valid(scopes));
ALTER TABLE jobs ADD COLUMN folds_case INTEGER NOT NULL DEFAULT 0 CHECK (folds_case IN (0, 1));
CREATE INDEX jobs_by_status ON jobs (status);
ALTER TABLE usage ADD COLUMN charged_tokens INTEGER NOT NULL DEFAULT 0 CHECK (charged_tokens >= 0);
ALTER TABLE usage ADD COLUMN cost_nano INTEGER NOT NULL DEFAULT 0 CHECK (cost_nano >= 0);
ALTER TABLE usage ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0 CHECK (unpriced >= 0);
CREATE VIEW accounting AS
SELECT 'job' AS kind, j.session_id, j.job_id, j.agent_ref, j.package_version, j.profile_id, j.agent, j.mode, j.status,
	CASE WHEN j.status IN (` + words(liveJobs) + `) THEN 'live' ELSE 'held' END AS class,
	j.lock_key, j.units, s.workspace,
	CASE WHEN j.mode = 'workspace-write' THEN coalesce(j.scopes, json_array(s.workspace)) END AS scopes, j.folds_case,
	r.host_pid, r.host_start, r.host_boot, r.engine_pid, r.engine_start, r.engine_boot
FROM jobs j LEFT JOIN sessions s ON s.session_id = j.session_id LEFT JOIN agent_runs r ON r.agent_ref = j.agent_ref
WHERE j.status IN (` + words(openJobs) + `)
UNION ALL
SELECT 'root', s.session_id, NULL, r.agent_ref, s.package_version, s.profile_id, NULL, NULL, s.status,
	CASE WHEN s.status IN (` + words(liveSessions) + `) THEN 'live' ELSE 'held' END,
	s.lock_key, s.units, s.workspace, NULL, 0,
	r.host_pid, r.host_start, r.host_boot, r.engine_pid, r.engine_start, r.engine_boot
FROM sessions s LEFT JOIN agent_runs r ON r.session_id = s.session_id AND r.job_id IS NULL
WHERE s.status IN (` + words(openSessions) + `);
`

// Who holds capacity as long as a process of his lives, and who holds any.
var (
	liveJobs     = []core.JobStatus{core.JobPaused, core.JobSuspended}
	liveSessions = []core.SessionStatus{core.SessionPaused, core.SessionSuspended}
	openJobs     = unfinished(core.JobTransitions())
	openSessions = unfinished(core.SessionTransitions())
)

// unfinished lists the statuses that are not final, sorted.
func unfinished[S interface {
	~string
	Terminal() bool
}](table map[S][]S) []S {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), S.Terminal)
}

// words lists statuses as SQL.
func words[S ~string](list []S) string {
	var parts []string
	for _, status := range list {
		parts = append(parts, "'"+string(status)+"'")
	}
	return strings.Join(parts, ", ")
}

func quoted[S ~string](table map[S][]S) string {
	return words(slices.Sorted(maps.Keys(table)))
}
