package store

import (
	"encoding/json"
	"fmt"
)

// The tables of records. A column listed here is derived from the record.

var sessionTable = &table[Session]{
	name: "sessions", noun: "session",
	version: func(s *Session) (int, string) { return s.SchemaVersion, s.PackageVersion },
	fields:  jsonFields[Session](),
	columns: []column[Session]{
		{"session_id", true, func(s *Session) any { return s.SessionID }},
		{"status", false, func(s *Session) any { return string(s.Status) }},
		{"profile_id", false, func(s *Session) any { return s.ProfileID }},
		{"workspace", false, func(s *Session) any { return s.Workspace }},
		{"created_at", false, func(s *Session) any { return stampTime(s.CreatedAt) }},
		{"last_active_at", false, func(s *Session) any { return stampTime(s.LastActiveAt) }},
		{"lock_key", false, func(s *Session) any { return orNull(s.RootLockKey) }},
		{"units", false, func(s *Session) any { return units(s.RootLockKey, s.RootUnits) }},
	},
	extra: []string{"epoch", "telemetry"},
	valid: func(s *Session) bool { return s.RunSequence == 1 && s.RootThread.problem() == "" },
	check: func(_ row, fields map[string]json.RawMessage) string {
		if got := string(fields["run_sequence"]); got != "1" {
			return "run sequence must be exactly 1"
		}
		return lineageProblem(fields)
	},
}

// RunInitial is the only kind of run: a session has one run for its whole life.
const RunInitial = "initial"

var runTable = &table[Run]{
	name: "runs", noun: "run",
	version: func(r *Run) (int, string) { return r.SchemaVersion, r.PackageVersion },
	fields:  jsonFields[Run](),
	columns: []column[Run]{
		{"run_id", true, func(r *Run) any { return r.RunID }},
		{"session_id", true, func(r *Run) any { return r.SessionID }},
		{"sequence", false, func(r *Run) any { return int64(r.Sequence) }},
		{"kind", false, func(r *Run) any { return r.Kind }},
		{"status", false, func(r *Run) any { return string(r.Status) }},
	},
	valid: func(r *Run) bool { return r.Sequence == 1 && r.Kind == RunInitial },
	check: func(r row, fields map[string]json.RawMessage) string {
		if r["sequence"] != int64(1) || string(fields["sequence"]) != "1" {
			return "run sequence must be exactly 1"
		}
		if r["kind"] != RunInitial || string(fields["kind"]) != `"`+RunInitial+`"` {
			return fmt.Sprintf("run kind must be %s", RunInitial)
		}
		return ""
	},
}

var jobTable = &table[Job]{
	name: "jobs", noun: "job",
	version: func(j *Job) (int, string) { return j.SchemaVersion, j.PackageVersion },
	fields:  jsonFields[Job](),
	columns: []column[Job]{
		{"job_id", true, func(j *Job) any { return j.JobID }},
		{"session_id", true, func(j *Job) any { return j.SessionID }},
		{"agent_ref", true, func(j *Job) any { return j.AgentRef }},
		{"profile_id", false, func(j *Job) any { return j.ProfileID }},
		{"agent", false, func(j *Job) any { return j.Agent }},
		{"status", false, func(j *Job) any { return string(j.Status) }},
		{"mode", false, func(j *Job) any { return j.Mode }},
		{"lock_key", false, func(j *Job) any { return orNull(j.LockKey) }},
		{"units", false, func(j *Job) any { return units(j.LockKey, j.Units) }},
		{"scopes", false, func(j *Job) any { return scopes(j.Lease) }},
		{"folds_case", false, func(j *Job) any { return flag(j.Lease.FoldsCase) }},
	},
}

var agentRunTable = &table[AgentRun]{
	name: "agent_runs", noun: "agent run",
	version: func(a *AgentRun) (int, string) { return a.SchemaVersion, a.PackageVersion },
	fields:  jsonFields[AgentRun](),
	columns: []column[AgentRun]{
		{"agent_ref", true, func(a *AgentRun) any { return a.AgentRef }},
		{"session_id", true, func(a *AgentRun) any { return a.SessionID }},
		{"job_id", true, func(a *AgentRun) any { return orNull(a.JobID) }},
		{"retired", false, func(a *AgentRun) any { return flag(a.Retired) }},
		{"host_pid", false, func(a *AgentRun) any { return pidOf(a.Host.Process) }},
		{"host_start", false, func(a *AgentRun) any { return orNull(a.Host.Process.StartToken) }},
		{"host_boot", false, func(a *AgentRun) any { return orNull(a.Host.Process.BootID) }},
		{"engine_pid", false, func(a *AgentRun) any { return pidOf(a.Engine) }},
		{"engine_start", false, func(a *AgentRun) any { return orNull(a.Engine.StartToken) }},
		{"engine_boot", false, func(a *AgentRun) any { return orNull(a.Engine.BootID) }},
	},
}

var inputTable = &table[Input]{
	name: "inputs", noun: "input",
	fields: jsonFields[Input](),
	columns: []column[Input]{
		{"input_id", true, func(i *Input) any { return i.InputID }},
		{"session_id", true, func(i *Input) any { return i.SessionID }},
		{"agent_ref", true, func(i *Input) any { return i.AgentRef }},
		{"seq", false, func(i *Input) any { return i.Seq }},
		{"state", false, func(i *Input) any { return string(i.State) }},
	},
}

var capabilityTable = &table[Capability]{
	name: "capabilities", noun: "capability",
	fields: jsonFields[Capability](),
	columns: []column[Capability]{
		{"token_sha256", true, func(c *Capability) any { return c.TokenSHA256 }},
		{"session_id", true, func(c *Capability) any { return c.SessionID }},
		{"agent_ref", true, func(c *Capability) any { return c.AgentRef }},
		{"revoked", false, func(c *Capability) any { return flag(c.RevokedAt != nil) }},
	},
}

var gatewayTable = &table[Gateway]{
	name: "gateways", noun: "gateway",
	version: func(g *Gateway) (int, string) { return g.SchemaVersion, g.PackageVersion },
	fields:  jsonFields[Gateway](),
	columns: []column[Gateway]{
		{"gateway_hash", true, func(g *Gateway) any { return g.GatewayHash }},
		{"status", false, func(g *Gateway) any { return g.Status }},
		{"pid", false, func(g *Gateway) any { return pidOf(g.Process) }},
		{"start_token", false, func(g *Gateway) any { return orNull(g.Process.StartToken) }},
		{"boot_id", false, func(g *Gateway) any { return orNull(g.Process.BootID) }},
	},
}

var launchTable = &table[Launch]{
	name: "launches", noun: "launch",
	fields: jsonFields[Launch](),
	columns: []column[Launch]{
		{"launch_id", true, func(l *Launch) any { return l.LaunchID }},
		{"session_id", true, func(l *Launch) any { return orNull(l.SessionID) }},
		{"owner", false, func(l *Launch) any { return l.Owner }},
		{"role", false, func(l *Launch) any { return l.Role }},
		{"ended", false, func(l *Launch) any { return flag(l.EndedAt != nil) }},
	},
}

var controlTable = &table[Control]{
	name: "controls", noun: "control",
	fields: jsonFields[Control](),
	columns: []column[Control]{
		{"control_id", true, func(c *Control) any { return c.ControlID }},
		{"session_id", true, func(c *Control) any { return c.SessionID }},
		{"agent_ref", true, func(c *Control) any { return c.AgentRef }},
		{"revision", true, func(c *Control) any { return int64(c.Revision) }},
		{"status", false, func(c *Control) any { return string(c.Status) }},
	},
}
