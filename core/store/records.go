package store

import (
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// SchemaVersion is the version of every record's shape. A record of another
// version is refused in place, never migrated by a reader.
const SchemaVersion = 2

// StatePackage is the generation of the records, raised only by a change that
// older builds could not read. It is not the version of the build.
const StatePackage = "1.0.0"

// Process is the recorded identity of a process. The zero value means none.
type Process struct {
	PID        int    `json:"pid"`
	StartToken string `json:"start_token"`
	BootID     string `json:"boot_id"`
	PGID       int    `json:"pgid,omitempty"`
	SID        int    `json:"sid,omitempty"`
	Command    string `json:"command,omitempty"`
}

// Session is the record of one team's run on one workspace, for its whole
// life.
//
// On disk it is one row of table sessions: the columns that admission and
// listing need, and this struct as strict JSON in column payload.
type Session struct {
	SchemaVersion  int    `json:"schema_version"`
	PackageVersion string `json:"package_version"`
	SessionID      string `json:"session_id"`
	ProfileID      string `json:"profile_id"`
	ProfileVersion string `json:"profile_version"`
	SnapshotHash   string `json:"snapshot_hash"`
	GatewayHash    string `json:"gateway_hash,omitempty"` // empty when no route needs a gateway
	Kind           string `json:"session_kind"`           // interactive, noninteractive, ambient
	Workspace      string `json:"workspace"`              // absolute, links resolved
	RootAgent      string `json:"root_agent"`
	RootAgentRef   string `json:"root_agent_ref"`

	Status       core.SessionStatus `json:"status"`
	CurrentRunID string             `json:"current_run_id,omitempty"` // empty once terminal
	LastRunID    string             `json:"last_run_id,omitempty"`    // set once terminal
	RunSequence  int                `json:"run_sequence"`             // always 1
	CreatedAt    time.Time          `json:"created_at"`
	StartedAt    *time.Time         `json:"started_at,omitempty"` // set once, survives resume
	LastActiveAt time.Time          `json:"last_active_at"`
	FinishedAt   *time.Time         `json:"finished_at,omitempty"`

	Codex  CodexPin  `json:"codex"`
	Binary BinaryPin `json:"binary"`

	// SandboxMode is what the command line asked of the root; empty: its role's.
	SandboxMode string `json:"root_sandbox_mode,omitempty"`
	// RouteFaults are routes that this session must do without: route id ->
	// kind. They never change.
	RouteFaults map[string]string `json:"route_faults"`
	// RouteAvailability is which routes could be used when the session's
	// supervisor last began: route id -> what is so of it.
	RouteAvailability map[string]Availability `json:"route_availability"`
	Bindings          map[string]string       `json:"bindings,omitempty"` // agent id -> model key
	Warnings          []string                `json:"profile_warnings,omitempty"`
	Homes             map[string]Home         `json:"homes,omitempty"` // agent id -> its home, once it was written

	// RootLockKey and RootUnits are the capacity that the root's route occupies;
	// no key: its capacity is unlimited.
	RootLockKey string `json:"root_resource_lock_key,omitempty"`
	RootUnits   int    `json:"root_resource_units,omitempty"`
	Budget      Budget `json:"budget,omitzero"` // of the whole tree

	// Client is the terminal that is attached, or the MCP process of an ambient
	// root; nil when there is none.
	Client *Process `json:"client,omitempty"`
	// ClientName is what the client of an ambient session calls itself, and
	// ClientThread its thread that leads, by the client's own id; empty: not told.
	ClientName   string `json:"client_name,omitempty"`
	ClientThread string `json:"client_thread_id,omitempty"`
	// ClientLeftAt is when an ambient session's client was seen to be gone; nil
	// while it has one.
	ClientLeftAt *time.Time `json:"client_left_at,omitempty"`
	// ColdPausePending says that a cold pause was asked for and its processes
	// are not known to be gone yet.
	ColdPausePending bool       `json:"cold_pause_pending,omitempty"`
	PausedJobIDs     []string   `json:"paused_job_ids,omitempty"` // paused with the session, taken up with it
	CompactedAt      *time.Time `json:"root_compacted_at,omitempty"`
	CompactionError  string     `json:"root_compaction_error,omitempty"`
	ResumeError      string     `json:"resume_error,omitempty"` // why the last resume failed

	RootMode string `json:"root_execution_mode"` // turn, goal
	RootThread

	// Wakes counts the turns that the supervisor started to tell the root of
	// its workers.
	Wakes int `json:"wakes,omitempty"`

	RootPrompt     FileRef `json:"root_prompt"` // prompt.txt; none when the root waits for a person
	RootEvents     FileRef `json:"root_events"` // root-events.jsonl, once nothing is added any more
	RootResult     FileRef `json:"root_result"` // root-result.md or root-partial-result.md
	RootResultKind string  `json:"root_result_kind,omitempty"`
	// RootDone says that the root's last turn is over and no other is on its
	// way; a session without a screen ends with RootOutcome (a session status)
	// once its jobs have ended and the root was told of them.
	RootDone     bool     `json:"root_done,omitempty"`
	RootOutcome  string   `json:"root_outcome,omitempty"`
	Deferred     bool     `json:"root_completion_deferred,omitempty"`
	DeferredJobs []string `json:"root_completion_deferred_jobs,omitempty"` // that it waits for

	Tainted      bool          `json:"tainted,omitempty"`
	TaintReasons []TaintReason `json:"taint_reasons,omitempty"`

	Error   string   `json:"error,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// Availability tells whether a route can be used.
type Availability struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why not
	Fault     string `json:"fault,omitempty"`  // kind, when the session was told to do without it
}

// Home tells what the CODEX_HOME of an agent role was given. It names secrets
// and holds none.
type Home struct {
	Dir              string            `json:"home"`
	Skill            string            `json:"orchestration_skill,omitempty"` // path
	SkillSHA256      string            `json:"orchestration_skill_sha256,omitempty"`
	Catalog          string            `json:"model_catalog_json,omitempty"` // path
	CatalogSHA256    string            `json:"model_catalog_sha256,omitempty"`
	NativeAgentFiles map[string]string `json:"native_agent_files,omitempty"`  // agent id -> path
	NativeAgentSHA   map[string]string `json:"native_agent_sha256,omitempty"` // agent id -> digest of that file
	DirectHeaderEnvs []string          `json:"direct_header_envs,omitempty"`  // names of the route's secrets
	ToolEnvs         []string          `json:"tool_mcp_envs,omitempty"`       // names of the tool servers' secrets
	ToolHTTPEnvs     []string          `json:"tool_mcp_http_envs,omitempty"`  // of these, sent in HTTP headers
	CommandFlags     []string          `json:"command_flags,omitempty"`       // of its app-server
	Warnings         []string          `json:"warnings,omitempty"`
}

// TaintReason is one reason why isolation or integration could not be
// guaranteed.
type TaintReason struct {
	At     time.Time `json:"at"`
	JobID  string    `json:"job_id,omitempty"`
	Reason string    `json:"reason"`
}

// RootThread says which thread is the root, and which were before it. The run
// mirrors it.
type RootThread struct {
	ThreadID   string            `json:"root_thread_id,omitempty"`
	Generation int               `json:"root_thread_generation,omitempty"` // of the lineage, from 1; 0: no thread yet
	Lineage    []LineageEntry    `json:"root_thread_lineage,omitempty"`
	Transition *ThreadTransition `json:"root_thread_transition,omitempty"` // staged, not committed yet
}

// LineageEntry is one thread that is or was the root.
type LineageEntry struct {
	Generation        int        `json:"generation"`
	ThreadID          string     `json:"thread_id"`
	CodexSessionID    string     `json:"codex_session_id"`
	AdoptedAt         time.Time  `json:"adopted_at"`
	Reason            string     `json:"reason"` // initial, fresh_context, fork
	SupersededAt      *time.Time `json:"superseded_at,omitempty"`
	SuccessorThreadID string     `json:"successor_thread_id,omitempty"`
}

// ThreadTransition is a change of the root's thread that has been seen.
type ThreadTransition struct {
	FromThreadID string    `json:"from_thread_id"`
	ToThreadID   string    `json:"to_thread_id"`
	Generation   int       `json:"generation"` // of ToThreadID
	ObservedAt   time.Time `json:"observed_at"`
	Reason       string    `json:"reason"`
}

// CodexPin is the Codex that the session uses and nothing else.
type CodexPin struct {
	Path         string `json:"path"` // absolute, links resolved
	SHA256       string `json:"sha256"`
	Stamp        string `json:"stamp,omitempty"` // process.Stamp of the file when it had that digest
	Version      string `json:"version"`
	SchemaSHA256 string `json:"schema_sha256"`
	Verdict      string `json:"verdict"` // reviewed, compatible
}

// BinaryPin is the build of ours that the session's processes start from.
type BinaryPin struct {
	Path   string `json:"path"` // below state/bin/<sha256>/
	SHA256 string `json:"sha256"`
	Stamp  string `json:"stamp,omitempty"`  // process.Stamp of the file when it had that digest
	Origin string `json:"origin,omitempty"` // process.Stamp of the executable that it was copied from
	Build  string `json:"build"`
}

// FileRef names a file below the session's or job's folder by what it held
// when it was published. The zero value means that there is none.
type FileRef struct {
	Name   string `json:"name,omitempty"` // within the owner's folder
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes
}

// Run is the one run of a session.
type Run struct {
	SchemaVersion  int                `json:"schema_version"`
	PackageVersion string             `json:"package_version"`
	RunID          string             `json:"run_id"`
	SessionID      string             `json:"session_id"`
	Sequence       int                `json:"sequence"` // exactly 1
	Kind           string             `json:"kind"`     // initial
	Status         core.SessionStatus `json:"status"`   // mirrors the session
	CreatedAt      time.Time          `json:"created_at"`
	RootThread
}

// Job is one task given to one agent role.
type Job struct {
	SchemaVersion  int    `json:"schema_version"`
	PackageVersion string `json:"package_version"`
	JobID          string `json:"job_id"`
	SessionID      string `json:"session_id"`
	RunID          string `json:"run_id"`
	ProfileID      string `json:"profile_id"`
	AgentRef       string `json:"agent_run_ref"`
	Agent          string `json:"agent"`
	BatchID        string `json:"batch_id"`
	ParentJobID    string `json:"parent_job_id,omitempty"` // empty: the root's
	Depth          int    `json:"depth"`                   // root's jobs have 1

	// ForkThreadID is the thread, of job ForkSourceJobID, that the job's own was
	// copied from; empty: its thread began empty.
	ForkSourceJobID string `json:"fork_source_job_id,omitempty"`
	ForkThreadID    string `json:"fork_thread_id,omitempty"`

	TaskKind   string   `json:"task_kind,omitempty"`
	Task       FileRef  `json:"task"` // prompt.txt
	Mode       string   `json:"mode"` // read-only, workspace-write
	WriteScope []string `json:"write_scope,omitempty"`
	Cwd        string   `json:"cwd"`

	// LockKey and Units are the capacity that the job's route occupies; no key:
	// its capacity is unlimited.
	LockKey string `json:"resource_lock_key,omitempty"`
	Units   int    `json:"resource_units,omitempty"`
	// Lease is the write scope as other sessions compare it.
	Lease Lease `json:"lease,omitzero"`
	// Reserved is what the job may spend of the session's budget.
	Reserved Allowance `json:"budget_reserved,omitzero"`

	// Worktree is the working tree of a writing job; nil for others. Patch is
	// what it made there, once that was captured.
	Worktree    *Worktree `json:"worktree,omitempty"`
	Patch       *Patch    `json:"patch,omitempty"`
	Integrating bool      `json:"integrating,omitempty"` // an integration was begun and not settled

	Status         core.JobStatus `json:"status"`
	Revision       uint64         `json:"progress_revision"` // grows with every visible change
	CreatedAt      time.Time      `json:"created_at"`
	StartedAt      *time.Time     `json:"started_at,omitempty"`
	FinishedAt     *time.Time     `json:"finished_at,omitempty"`
	LastProgressAt *time.Time     `json:"last_progress_at,omitempty"`

	Events      FileRef          `json:"events"` // events.jsonl, once nothing is added any more
	Result      FileRef          `json:"result"` // result.md or the partial result
	ResultKind  core.ResultKind  `json:"result_kind,omitempty"`
	ResultState core.ResultState `json:"result_state,omitempty"`

	// Contract says how the result is held to the role's contract; nil without
	// one. Literal is what a literal task's result must say of its task.
	Contract *Contract `json:"contract,omitempty"`
	Literal  *Literal  `json:"literal,omitempty"`

	Inbox            InboxState `json:"inbox,omitempty"`
	ColdPausePending bool       `json:"cold_pause_pending,omitempty"`
	CancelReason     string     `json:"cancel_reason,omitempty"`
	// ControlRevision was always written by earlier builds of this state package.
	// Nobody reads it; without it their jobs could not be read.
	ControlRevision uint64      `json:"control_revision,omitempty"`
	RolledBack      bool        `json:"atomic_batch_rolled_back,omitempty"`
	Error           string      `json:"error,omitempty"`
	Warning         string      `json:"warning,omitempty"`
	Failure         *Failure    `json:"failure,omitempty"`
	Usage           *TokenUsage `json:"usage,omitempty"`
}

// Contract tells how a job's result is held to its contract, and what came of
// it.
type Contract struct {
	Enforcement     string     `json:"contract_enforcement"` // strict, warn
	Transport       string     `json:"contract_transport"`   // native_schema_projection, validated_text
	Valid           *bool      `json:"contract_valid,omitempty"`
	RepairAttempted bool       `json:"contract_repair_attempted,omitempty"`
	Errors          []string   `json:"contract_errors,omitempty"`  // bounded, one line each
	Structured      FileRef    `json:"structured_result,omitzero"` // result.json, of a valid result
	Artifacts       []Artifact `json:"artifacts,omitempty"`        // that a valid result declares
}

// Artifact is a file that a result declares, as it was found.
type Artifact struct {
	RelativePath string `json:"relative_path"`
	SHA256       string `json:"sha256"`
	Size         int64  `json:"size"` // bytes
	MediaType    string `json:"media_type"`
}

// Literal identifies a literal task.
type Literal struct {
	Operation   string `json:"operation"`
	InputSHA256 string `json:"input_sha256"` // of the task's data, as the agent was given it
}

// Lease is a write scope on disk.
type Lease struct {
	Paths     []string `json:"write_scope_resolved,omitempty"` // absolute, links resolved
	FoldsCase bool     `json:"folds_case,omitempty"`           // the file system takes names of another case for the same
}

// Budget limits what a session may spend, over the whole tree.
type Budget struct {
	Limit   Allowance `json:"limit,omitzero"`
	Reserve Allowance `json:"reserve,omitzero"` // of Limit, for the root's final report
	// AllowUnknownPrice lets routes of unknown price work under a limit of
	// money, which then counts only what has a price.
	AllowUnknownPrice bool `json:"allow_unknown_price,omitempty"`
}

// Allowance is an amount of tokens and of money. A zero part is no limit, unless
// it is said otherwise.
type Allowance struct {
	Tokens  int64 `json:"tokens,omitempty"`   // input and output, cached input included
	NanoUSD int64 `json:"nano_usd,omitempty"` // billionths of a US dollar
}

// Worktree names a writing job's working tree (see core/workspace).
type Worktree struct {
	Dir        string `json:"dir"`
	Top        string `json:"top"`
	Prefix     string `json:"prefix,omitempty"`
	BaseCommit string `json:"base_commit"`
	BaseTree   string `json:"base_tree"`
	Removed    bool   `json:"removed,omitempty"` // after its capture was proven
}

// Patch is what a writing job made. Paths are quoted where they are not plain
// text; the lists are bounded, the trees hold everything.
type Patch struct {
	File     FileRef  `json:"file"` // patch.diff, for people
	BaseTree string   `json:"base_tree"`
	Tree     string   `json:"tree"`
	Total    int      `json:"total"` // changed paths
	Changed  []string `json:"changed,omitempty"`
	Flagged  []string `json:"flagged,omitempty"`
	Refused  []string `json:"refused,omitempty"`
	Problems []string `json:"problems,omitempty"` // what the capture does not carry whole
	Whole    bool     `json:"whole"`              // nothing of the work is in the worktree alone
}

// InboxState tells whether whoever spawned a job knows what became of it.
type InboxState string

// The states of a job in the inbox. The zero value means that there is nothing
// to tell.
const (
	InboxNew     InboxState = "new"     // the spawner was not told
	InboxOffered InboxState = "offered" // a turn was started to tell it
	InboxRead    InboxState = "read"    // it has asked since
)

// Failure is a normalised failure of a turn.
type Failure struct {
	Kind            string `json:"kind"`
	Message         string `json:"message"`
	Retryable       bool   `json:"retryable"`
	RetryAtRaw      string `json:"retry_at_raw,omitempty"`
	RetryAt         string `json:"retry_at,omitempty"`
	RetryAtTimezone string `json:"retry_at_timezone,omitempty"`
}

// TokenUsage sums what the engine reported for a thread over its turns.
type TokenUsage struct {
	InputTokens       uint64 `json:"input_tokens"`
	CachedInputTokens uint64 `json:"cached_input_tokens"`
	OutputTokens      uint64 `json:"output_tokens"`
	EventCount        int    `json:"event_count"`
}

// AgentRun is the running side of the root or of a job: its host, its engine,
// its thread and how far its events were taken over. The session's row or the
// job's row says what it is for.
type AgentRun struct {
	SchemaVersion  int    `json:"schema_version"`
	PackageVersion string `json:"package_version"`
	AgentRef       string `json:"agent_run_ref"`
	SessionID      string `json:"session_id"`
	JobID          string `json:"job_id,omitempty"` // empty: the root
	Agent          string `json:"agent"`
	Model          string `json:"model"` // catalogue key
	Route          string `json:"route"`
	Home           string `json:"home"` // CODEX_HOME
	ApprovalPolicy string `json:"approval_policy,omitempty"`
	ExecutionMode  string `json:"execution_mode,omitempty"` // turn, goal

	Generation uint64    `json:"generation"`            // of the engine's process; 0 before the first launch
	Host       HostRef   `json:"host"`                  // the host plugin's process
	Engine     Process   `json:"engine"`                // the app-server
	Command    []string  `json:"command,omitempty"`     // how it was started; no secret stands in a command line
	Handle     []byte    `json:"handle,omitempty"`      // protobuf hostpb.Handle
	GatewayURL string    `json:"gateway_url,omitempty"` // that stood in the home when the engine was launched
	Retired    bool      `json:"retired"`               // host, engine and descendants are gone on purpose
	Survivors  []Process `json:"survivors,omitempty"`   // what would not die when it was retired

	ThreadID         string    `json:"thread_id,omitempty"`
	ActiveTurnID     string    `json:"active_turn_id,omitempty"`
	LastTurnID       string    `json:"last_turn_id,omitempty"`
	EventGeneration  uint64    `json:"event_generation"`  // position up to which events.jsonl is durable
	EventSeq         uint64    `json:"event_seq"`         //
	EvidenceComplete bool      `json:"evidence_complete"` // false once a hole was recorded
	RecoveryAttempts int       `json:"recovery_attempts"`
	RecoveryError    string    `json:"recovery_error,omitempty"`
	OpenedAt         time.Time `json:"opened_at,omitzero"`

	// ControlRevision counts the controls that the agent was given; the last
	// one's action and what became of it stand beside it.
	ControlRevision   uint64        `json:"control_revision"`
	LastControlAction string        `json:"last_control_action,omitempty"`
	LastControlStatus ControlStatus `json:"last_control_status,omitempty"`

	// Holding says that the agent does nothing until it is told to go on: its
	// turn was interrupted on request.
	Holding        bool             `json:"holding,omitempty"`
	CompactPending bool             `json:"compact_pending,omitempty"` // at the turn's end
	Effort         string           `json:"effort,omitempty"`          // chosen by set_effort; empty: the role's
	Pending        []PendingRequest `json:"pending_requests,omitempty"`
	// FinalizeBy is until when the result may be asked for, once it is; nil
	// before.
	FinalizeBy *time.Time `json:"finalize_by,omitempty"`
	Goal       *Goal      `json:"goal,omitempty"` // nil in mode turn

	Natives []NativeRun `json:"native_runs,omitempty"` // in the order in which they were seen
	// DirectUsage is what the engine counted for the run's thread, and for no other
	// of its threads, on a route that no gateway counts.
	DirectUsage TokenUsage `json:"direct_usage,omitzero"`
}

// NativeRun is a native agent: a thread inside the engine of an agent run, which
// the engine started by itself.
type NativeRun struct {
	AgentRef       string `json:"agent_run_ref"`
	ThreadID       string `json:"thread_id"`
	ParentThreadID string `json:"parent_thread_id"` // the agent run's, or another native agent's
	Agent          string `json:"agent,omitempty"`  // role; empty: started as none of the home's
	Nickname       string `json:"nickname,omitempty"`
	// Status is the engine's word (idle, active, systemError, notLoaded), or
	// NativeStopped, which nothing changes, or NativeDetached.
	Status string    `json:"status"`
	SeenAt time.Time `json:"seen_at"` // first
	// ControlRevision and what stands beside it are as those of an AgentRun.
	ControlRevision   uint64        `json:"control_revision"`
	LastControlAction string        `json:"last_control_action,omitempty"`
	LastControlStatus ControlStatus `json:"last_control_status,omitempty"`
	DirectUsage       TokenUsage    `json:"direct_usage,omitzero"`
}

// Statuses of a native agent: two that are not the engine's, and its word for one
// of which nothing runs.
const (
	NativeStopped   = "stopped"
	NativeDetached  = "detached"
	NativeNotLoaded = "notLoaded"
)

// Goal is what a thread in mode goal works for.
type Goal struct {
	Objective        string `json:"goal_objective"`                  // at most 4000 code points
	Status           string `json:"goal_status"`                     // the engine's word: paused, active, complete…
	TokenBudget      int64  `json:"goal_token_budget"`               //
	MaxTokenBudget   int64  `json:"max_goal_token_budget,omitempty"` // what continue may raise it to
	BootstrapPending bool   `json:"goal_bootstrap_pending,omitempty"`
	Finalizing       bool   `json:"finalizing,omitempty"` // its work is done; the result is being asked for
}

// PendingRequest is something that the engine asked and waits for.
type PendingRequest struct {
	Key       string    `json:"key"`        // integer:1, string:abc
	RequestID string    `json:"request_id"` // JSON text of the engine's id
	Method    string    `json:"method"`
	ThreadID  string    `json:"thread_id"`
	TurnID    string    `json:"turn_id,omitempty"`
	Params    string    `json:"params"` // JSON, bounded
	AskedAt   time.Time `json:"asked_at"`
}

// ControlStatus is what became of a control.
type ControlStatus string

// What can become of a control. Unknown is told as such.
const (
	ControlPending  ControlStatus = "pending"
	ControlApplied  ControlStatus = "applied"
	ControlRejected ControlStatus = "rejected"
	ControlUnknown  ControlStatus = "delivery_unknown"
)

// Control is one instruction that an agent was given, under the revision that
// it made.
type Control struct {
	ControlID string        `json:"control_id"` // agent run ref/revision
	SessionID string        `json:"session_id"`
	AgentRef  string        `json:"agent_run_ref"`
	Revision  uint64        `json:"revision"` // from 1
	Action    string        `json:"action"`
	Caller    string        `json:"caller"`
	Status    ControlStatus `json:"status"`
	Error     string        `json:"error,omitempty"`
	At        time.Time     `json:"at"`
	SettledAt *time.Time    `json:"settled_at,omitempty"`
}

// HostRef is how to reach a host plugin's process again.
type HostRef struct {
	Instance string  `json:"instance,omitempty"` // folder below the session's runtime folder
	Process  Process `json:"process"`
	Socket   string  `json:"socket,omitempty"`
	Protocol int     `json:"protocol,omitempty"`
	SHA256   string  `json:"sha256,omitempty"` // of the executable
}

// InputState is how far an input to a thread has come.
type InputState string

// The states of an input. An input is sent at most once: only InputIntended
// may be sent, and InputSent is written before it leaves.
const (
	InputIntended InputState = "intended"  // recorded, not handed to the host yet
	InputSent     InputState = "sent"      // handed to the host; outcome not known yet
	InputApplied  InputState = "applied"   // the thread has it; TurnID is set
	InputRejected InputState = "rejected"  // the thread refused it
	InputLost     InputState = "lost"      // proven never to have reached the thread
	InputTurnLost InputState = "turn_lost" // reached the thread, its turn died with the engine
	InputTurnDone InputState = "turn_done" // its turn ended and was published
)

// Input is one text given to a thread: the ledger that keeps "never sent
// twice".
type Input struct {
	InputID   string `json:"input_id"` // also the engine's client id of the message
	SessionID string `json:"session_id"`
	AgentRef  string `json:"agent_run_ref"`
	Seq       int64  `json:"seq"`    // order within the agent run, from 1
	Origin    string `json:"origin"` // task, recovery, inbox, control
	// ControlRevision is the revision of the control that the input carries out;
	// 0 for others.
	ControlRevision uint64     `json:"control_revision,omitempty"`
	Text            string     `json:"text"`
	State           InputState `json:"state"`
	TurnID          string     `json:"turn_id,omitempty"`
	CreatedAt       time.Time  `json:"created_at"`
	EndedAt         *time.Time `json:"ended_at,omitempty"`
	// TurnStatus is the engine's word for how the turn ended: completed,
	// failed, interrupted.
	TurnStatus string `json:"turn_status,omitempty"`
}

// Capability is a token that was given out, by its hash alone.
type Capability struct {
	TokenSHA256 string     `json:"token_sha256"`
	SessionID   string     `json:"session_id"`
	AgentRef    string     `json:"agent_run_ref"`
	Kind        string     `json:"kind"`       // caller, gateway
	Generation  uint64     `json:"generation"` // of the engine it was given to
	CreatedAt   time.Time  `json:"created_at"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
}

// Gateway is the record of one gateway process, by the hash of its routes.
type Gateway struct {
	SchemaVersion  int       `json:"schema_version"`
	PackageVersion string    `json:"package_version"`
	GatewayHash    string    `json:"gateway_hash"`
	Instance       string    `json:"instance"`
	Process        Process   `json:"process"`
	Socket         string    `json:"socket"`
	Protocol       int       `json:"protocol"`
	SHA256         string    `json:"sha256"`   // of the executable
	BaseURL        string    `json:"base_url"` // http://127.0.0.1:PORT/v1
	Status         string    `json:"status"`   // starting, running, stopped
	StartedAt      time.Time `json:"started_at"`
	LastUsedAt     time.Time `json:"last_used_at"`
}

// Launch is the intent to start a process, written before exec, and its
// identity, written before the process is relied on.
type Launch struct {
	LaunchID   string     `json:"launch_id"`  // the plugin instance, or keeper/supervisor
	SessionID  string     `json:"session_id"` // empty for a gateway
	Owner      string     `json:"owner"`      // agent run ref, gateway hash, or session id
	Role       string     `json:"role"`       // keeper, supervisor, host, gateway, app-server
	IntentAt   time.Time  `json:"intent_at"`
	Process    Process    `json:"process"` // zero until recorded
	RecordedAt *time.Time `json:"recorded_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
}

// Audit is one row of the audit trail. It is written in the same transaction
// as the intent that it precedes: no audit, no act.
type Audit struct {
	Seq       int64          `json:"seq"`
	At        time.Time      `json:"at"`
	Event     string         `json:"event"`
	SessionID string         `json:"session_id"`
	RunID     string         `json:"run_id"`
	JobID     string         `json:"job_id,omitempty"`
	Caller    string         `json:"caller,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// Usage sums the gateway's telemetry of one agent run on one route and model.
type Usage struct {
	SessionID    string  `json:"session_id"`
	AgentRef     string  `json:"agent_run_ref"`
	Route        string  `json:"route"`
	Model        string  `json:"model"`
	Requests     int     `json:"requests"`
	InputTokens  *uint64 `json:"input_tokens"`
	CachedTokens *uint64 `json:"cached_input_tokens"`
	OutputTokens *uint64 `json:"output_tokens"`
	Scripted     bool    `json:"scripted"`

	// What budgets are charged: the counts, or an estimate where the provider
	// sent none; and what that cost.
	ChargedTokens uint64 `json:"charged_tokens"`
	NanoUSD       int64  `json:"cost_nano_usd"`     // billionths of a US dollar
	Unpriced      int    `json:"unpriced_requests"` // whose cost nobody knows
}
