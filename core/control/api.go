package control

import (
	"encoding/json"
	"time"
)

// Version 1 of the control API is frozen: fields and verbs are added, never
// changed. A request names it in HeaderAPI; another major is refused with a
// text that names both builds.
const APIVersion = 1

// Request headers. The token is the only secret among them.
const (
	HeaderAPI        = "Mmo-Api"         // "1"
	HeaderBuild      = "Mmo-Build"       // build of the client, for refusals
	HeaderToken      = "Authorization"   // "Bearer <capability>"; absent for the operator
	HeaderThread     = "Mmo-Thread-Id"   // _meta.threadId of the MCP call
	HeaderTurn       = "Mmo-Turn-Id"     // turn of the MCP call
	HeaderCall       = "Mmo-Call-Id"     // call id of the MCP call
	HeaderRequestKey = "Mmo-Request-Key" // idempotency key; overrides thread, turn and call
)

// MaxBody is the largest request body in bytes.
const MaxBody = 8 << 20

// Verbs of version 1: POST /v1/<verb> with a JSON object, answered by a JSON
// object, or by a stream of JSON lines for VerbFollow.
const (
	VerbHello   = "hello"   // HelloRequest -> HelloResponse; any peer of ours
	VerbCaller  = "caller"  // CallerRequest -> CallerResponse
	VerbSession = "session" // SessionRequest -> SessionView
	VerbSpawn   = "spawn"   // SpawnRequest -> SpawnResponse
	VerbJobs    = "jobs"    // JobsRequest -> JobsResponse
	VerbWait    = "wait"    // WaitRequest -> WaitResponse
	VerbResult  = "result"  // ResultRequest -> ResultResponse
	VerbCancel  = "cancel"  // CancelRequest -> CancelResponse
	VerbStop    = "stop"    // StopRequest -> StopResponse; operator only
	VerbFollow  = "follow"  // FollowRequest -> FollowEvent lines; operator only
	VerbAudit   = "audit"   // AuditRequest -> AuditResponse; operator only

	VerbAccept    = "accept"    // DispositionRequest -> DispositionResponse
	VerbReject    = "reject"    // DispositionRequest -> DispositionResponse
	VerbIntegrate = "integrate" // IntegrateRequest -> IntegrateResponse

	VerbAttach = "attach" // AttachRequest -> AttachResponse; operator only
	VerbJoin   = "join"   // JoinRequest -> JoinResponse; operator only: it makes the root's client
	VerbNews   = "news"   // NewsRequest -> NewsResponse; root only

	VerbControl = "control" // ControlRequest -> ControlResponse; each action is a right of its own

	VerbTrace       = "trace"        // TraceRequest -> TraceResponse
	VerbTraceRecord = "trace_record" // TraceRecordRequest -> TraceRecordResponse; the right is that of trace

	VerbSessionPause    = "session_pause"    // PauseRequest -> PauseResponse; operator only, like all below
	VerbSessionContinue = "session_continue" // ContinueRequest -> ContinueResponse
	VerbSessionResume   = "session_resume"   // ResumeRequest -> ResumeResponse
	VerbSessionCompact  = "session_compact"  // CompactRequest -> SessionView
	VerbSessionDetach   = "session_detach"   // DetachRequest -> SessionView
	VerbSessionCancel   = "session_cancel"   // CancelSessionRequest -> SessionView
	VerbSessionTaint    = "session_taint"    // TaintRequest -> SessionView
)

// Actions of VerbControl. All but inspect take an expected_revision.
const (
	ActionInspect   = "inspect"
	ActionSteer     = "steer"      // adds text to the turn that runs
	ActionInterrupt = "interrupt"  // ends the turn; the agent is paused
	ActionPause     = "pause"      // the same
	ActionContinue  = "continue"   // gives a paused or suspended agent its next input
	ActionFinalize  = "finalize"   // asks for the result of what there is
	ActionCompact   = "compact"    // shortens the thread's context, between turns
	ActionSetEffort = "set_effort" // for later turns
	ActionRespond   = "respond"    // answers a question or an approval
	ActionFork      = "fork"       // begins a new job on a copy of the thread
	ActionDetach    = "detach"     // a worker goes on without its controller's interest
	ActionStop      = "stop"       // ends a worker, or a native agent
)

// ErrorBody is the body of every answer whose HTTP status is not 200.
type ErrorBody struct {
	Error ErrorView `json:"error"`
}

// ErrorView is a core.Error on the wire.
type ErrorView struct {
	Kind          string `json:"kind"`
	Message       string `json:"message"`
	Remedy        string `json:"remedy,omitempty"`
	Reason        string `json:"reason,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	SessionStatus string `json:"session_status,omitempty"`

	Holders []HolderView `json:"holders,omitempty"` // who has what an admission lacked
}

// HelloRequest asks who serves the socket.
type HelloRequest struct{}

// HelloResponse names the supervisor.
type HelloResponse struct {
	API       int    `json:"api"`
	Build     string `json:"build"`
	SessionID string `json:"session_id"`
	Epoch     uint64 `json:"epoch"` // grows with every takeover of the session
	PID       int    `json:"pid"`
	Ready     bool   `json:"ready"` // false while it still reconciles after a start
}

// CallerRequest asks what the caller is and may do.
type CallerRequest struct{}

// CallerResponse is what the MCP process builds its tool list from.
type CallerResponse struct {
	Role      string       `json:"role"` // root, worker, native, operator
	Agent     string       `json:"agent,omitempty"`
	JobID     string       `json:"job_id,omitempty"`
	SessionID string       `json:"session_id"`
	Profile   string       `json:"profile"`
	Tools     []string     `json:"tools"` // names of the tools it may use, in their order
	Spawn     []SpawnGrant `json:"spawn"` // agents it may spawn, in profile order
}

// SpawnGrant describes one agent that the caller may spawn.
type SpawnGrant struct {
	Agent       string   `json:"agent"`
	Description string   `json:"description"`
	TaskKinds   []string `json:"task_kinds"`
	Modes       []string `json:"modes"` // read-only, workspace-write
	// LiteralOnly says that the agent has low trust: it takes literal_task alone.
	LiteralOnly        bool `json:"literal_only,omitempty"`
	WriteScopeRequired bool `json:"write_scope_required,omitempty"` // of a writer
}

// SessionRequest asks for the session's public view.
type SessionRequest struct{}

// SessionView is the public record of a session. It holds no secret.
type SessionView struct {
	SessionID      string        `json:"session_id"`
	ProfileID      string        `json:"profile_id"`
	ProfileVersion string        `json:"profile_version"`
	SnapshotHash   string        `json:"snapshot_hash"`
	Kind           string        `json:"session_kind"`
	Status         string        `json:"status"`
	Workspace      string        `json:"workspace"`
	RootAgent      string        `json:"root_agent"`
	Client         *ClientView   `json:"client,omitempty"` // of an ambient session, while it has one
	RootThreadID   string        `json:"root_thread_id,omitempty"`
	ActiveTurnID   string        `json:"active_root_turn_id,omitempty"`
	RunID          string        `json:"run_id"`
	RunSequence    int           `json:"run_sequence"`
	CreatedAt      time.Time     `json:"created_at"`
	StartedAt      *time.Time    `json:"started_at,omitempty"`
	FinishedAt     *time.Time    `json:"finished_at,omitempty"`
	LastActiveAt   time.Time     `json:"last_active_at"`
	Error          string        `json:"error,omitempty"`
	Failure        *FailureView  `json:"failure,omitempty"`
	ResultKind     string        `json:"result_kind,omitempty"`
	RuntimeCurrent bool          `json:"runtime_current"` // the kept binary is this build
	Supervised     bool          `json:"supervised"`      // a supervisor answers for it
	Recoveries     int           `json:"root_recovery_attempts"`
	Deferred       bool          `json:"root_completion_deferred"`
	Tainted        bool          `json:"tainted"` // its isolation is in doubt: it delegates and integrates no more
	TaintReasons   []string      `json:"taint_reasons,omitempty"`
	ResumeError    string        `json:"resume_error,omitempty"`          // why it could not be taken up the last time
	CompactError   string        `json:"root_compaction_error,omitempty"` // of the last compaction
	Processes      []ProcessView `json:"processes,omitempty"`             // operator only
	Codex          CodexView     `json:"codex"`

	RootPermissions   string                       `json:"root_sandbox_mode,omitempty"` // asked for on the command line
	Bindings          map[string]string            `json:"bindings,omitempty"`          // agent -> model key, chosen on the command line
	RouteFaults       map[string]string            `json:"route_faults,omitempty"`      // route -> kind
	RouteAvailability map[string]RouteAvailability `json:"route_availability,omitempty"`
	ProfileWarnings   []string                     `json:"profile_warnings,omitempty"`
	Homes             map[string]HomeView          `json:"homes,omitempty"` // agent -> its CODEX_HOME; operator only

	NativeRuns map[string]NativeView `json:"root_native_runs,omitempty"` // inside the root's engine: agent_run_ref -> native agent

	Capacity *Capacity      `json:"capacity,omitempty"` // while a supervisor answers
	Jobs     []JobView      `json:"jobs,omitempty"`
	Usage    []UsageView    `json:"usage,omitempty"`
	Evidence []EvidenceView `json:"evidence,omitempty"` // operator only
}

// RouteAvailability tells whether a route can be used.
type RouteAvailability struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why not
	Fault     string `json:"fault,omitempty"`  // kind, when the session was told to do without it
}

// HomeView tells what the home of an agent role was given. It names secrets and
// holds none.
type HomeView struct {
	Home             string            `json:"home"`
	Skill            string            `json:"orchestration_skill,omitempty"`
	SkillSHA256      string            `json:"orchestration_skill_sha256,omitempty"`
	Catalog          string            `json:"model_catalog_json,omitempty"`
	CatalogSHA256    string            `json:"model_catalog_sha256,omitempty"`
	NativeAgentFiles map[string]string `json:"native_agent_files,omitempty"`
	DirectHeaderEnvs []string          `json:"direct_header_envs"`
	ToolEnvs         []string          `json:"tool_mcp_envs"`
	ToolHTTPEnvs     []string          `json:"tool_mcp_http_envs"`
	CommandFlags     []string          `json:"command_flags"`
	Warnings         []string          `json:"warnings,omitempty"`
}

// CodexView tells which Codex the session is pinned to.
type CodexView struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Verdict string `json:"verdict"` // reviewed, compatible
}

// FailureView is a normalised failure of a turn.
type FailureView struct {
	Kind            string `json:"kind"` // provider_usage_limited, provider_transport, turn_failed...
	Message         string `json:"message"`
	Retryable       bool   `json:"retryable"`
	RetryAtRaw      string `json:"retry_at_raw,omitempty"`
	RetryAt         string `json:"retry_at,omitempty"`
	RetryAtTimezone string `json:"retry_at_timezone,omitempty"`
}

// ProcessView names one process of the session.
type ProcessView struct {
	Role  string `json:"role"` // keeper, supervisor, host, app-server, gateway, mcp
	Owner string `json:"owner,omitempty"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
}

// EvidenceView names one file of evidence and whether it still is what the
// store recorded.
type EvidenceView struct {
	Owner  string `json:"owner"` // session or job id
	Name   string `json:"name"`
	Path   string `json:"path"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
	State  string `json:"state"` // present, missing, differs, growing; kept (a worktree)
}

// UsageView sums the tokens of one agent run on one route. A count that the
// provider never gave is null.
type UsageView struct {
	AgentRunRef  string  `json:"agent_run_ref"`
	Agent        string  `json:"agent"`
	JobID        string  `json:"job_id,omitempty"`
	Route        string  `json:"route"`
	Model        string  `json:"model"`
	Requests     int     `json:"requests"`
	InputTokens  *uint64 `json:"input_tokens"`
	CachedTokens *uint64 `json:"cached_input_tokens"`
	OutputTokens *uint64 `json:"output_tokens"`
	Scripted     bool    `json:"scripted"` // the model was the scripted offline one

	USD      json.Number `json:"cost_usd,omitempty"`          // of the requests whose price is known
	Unpriced int         `json:"unpriced_requests,omitempty"` // whose cost nobody knows
}

// SpawnRequest delegates one job, or several that are admitted together or
// not at all.
type SpawnRequest struct {
	Agents []SpawnSpec `json:"agents"`
}

// SpawnSpec is one job to be.
type SpawnSpec struct {
	Agent       string       `json:"agent"`
	TaskKind    string       `json:"task_kind,omitempty"`
	Task        string       `json:"task,omitempty"`
	LiteralTask *LiteralTask `json:"literal_task,omitempty"`
	Mode        string       `json:"mode,omitempty"` // read-only (default), workspace-write
	WriteScope  []string     `json:"write_scope,omitempty"`
	Attachments []string     `json:"attachments,omitempty"`
}

// LiteralTask is the only kind of task that a low-trust agent takes.
type LiteralTask struct {
	Operation string   `json:"operation"` // summarize_supplied, locate
	Text      string   `json:"text,omitempty"`
	MaxPoints int      `json:"max_points,omitempty"`
	Needle    string   `json:"needle,omitempty"`
	Paths     []string `json:"paths,omitempty"`
}

// SpawnResponse names the jobs, in the order asked for.
type SpawnResponse struct {
	Atomic   bool          `json:"atomic"`
	BatchID  string        `json:"batch_id"`
	Accepted []AcceptedJob `json:"accepted"`
	Rejected []RejectedJob `json:"rejected"`
	Repeated bool          `json:"repeated"` // the same request was answered before
}

// AcceptedJob is a job whose host is launched.
type AcceptedJob struct {
	JobID       string `json:"job_id"`
	AgentRunRef string `json:"agent_run_ref"`
	Agent       string `json:"agent"`
	Status      string `json:"status"`
}

// RejectedJob is reserved for partial batches; an atomic batch has none.
type RejectedJob struct {
	Agent string    `json:"agent"`
	Error ErrorView `json:"error"`
}

// JobsRequest asks for the jobs the caller may see: all when none is named.
type JobsRequest struct {
	JobIDs []string `json:"job_ids,omitempty"`
}

// JobsResponse lists public job records, oldest first.
type JobsResponse struct {
	Jobs     []JobView `json:"jobs"`
	Capacity Capacity  `json:"capacity"`
}

// Capacity tells what the session may still start.
type Capacity struct {
	ActiveAgents    int `json:"active_agents"`
	MaxActiveAgents int `json:"max_active_agents"`
	ActiveWriters   int `json:"active_writers"`
	MaxWriters      int `json:"max_active_writers"`

	Roles     []RoleCapacity     `json:"roles,omitempty"`     // that have a limit of their own
	Resources []ResourceCapacity `json:"resources,omitempty"` // of the team's routes
	Leases    []HolderView       `json:"leases,omitempty"`    // write scopes on this workspace, or around or inside it
	Budget    *BudgetView        `json:"budget,omitempty"`    // none: spending is not limited
}

// RoleCapacity is how many jobs of a role there may be, over all sessions of the
// profile.
type RoleCapacity struct {
	Agent     string       `json:"agent"`
	Active    int          `json:"active"`
	MaxActive int          `json:"max_active"`
	Holders   []HolderView `json:"holders,omitempty"` // bounded
}

// ResourceCapacity is a capacity that routes share, over all sessions.
type ResourceCapacity struct {
	Resource string       `json:"resource"`
	LockKey  string       `json:"lock_key"`
	Used     int          `json:"units_used"`
	Max      int          `json:"units_max"`
	Holders  []HolderView `json:"holders,omitempty"` // bounded
}

// HolderView names an agent that has capacity.
type HolderView struct {
	SessionID  string   `json:"session_id"`
	JobID      string   `json:"job_id,omitempty"` // absent: the session's root
	Agent      string   `json:"agent,omitempty"`
	Status     string   `json:"status,omitempty"` // of the job, or of the root's session
	Units      int      `json:"units,omitempty"`
	WriteScope []string `json:"write_scope,omitempty"` // absolute
	Frees      string   `json:"frees,omitempty"`       // what would set it free
}

// BudgetView tells what the session may spend and who has a claim on it. A part
// that is not limited is absent.
type BudgetView struct {
	Tokens *BudgetPart `json:"tokens,omitempty"`
	USD    *BudgetPart `json:"usd,omitempty"`
	// Unpriced counts requests whose cost nobody knows: USD has too little of
	// them.
	Unpriced int `json:"unpriced_requests,omitempty"`
}

// BudgetPart is a limit on tokens, or on US dollars.
type BudgetPart struct {
	Limit       json.Number `json:"limit"`
	Reserve     json.Number `json:"reserve"`       // of it, for the root's final report
	Spent       json.Number `json:"spent"`         // by all
	FreeForJobs json.Number `json:"free_for_jobs"` // that no job has a claim on
	LeftForRoot json.Number `json:"left_for_root"` // its reserve among it
	Overrun     json.Number `json:"overrun"`       // spent beyond what was given: at most one answer of each agent
}

// JobView is the public record of a job. It holds no secret and no path.
type JobView struct {
	JobID            string `json:"job_id"`
	AgentRunRef      string `json:"agent_run_ref"`
	BatchID          string `json:"batch_id"`
	ParentJobID      string `json:"parent_job_id,omitempty"`
	Agent            string `json:"agent"`
	ForkSourceJobID  string `json:"fork_source_job_id,omitempty"` // whose thread its own was copied from
	ForkThreadID     string `json:"fork_thread_id,omitempty"`     //
	TaskKind         string `json:"task_kind,omitempty"`
	Mode             string `json:"mode"`
	Status           string `json:"status"`
	Revision         uint64 `json:"progress_revision"`
	ApprovalPolicy   string `json:"approval_policy,omitempty"`
	ExecutionMode    string `json:"execution_mode,omitempty"` // turn, goal
	GoalStatus       string `json:"goal_status,omitempty"`    // the engine's word: active, complete, budgetLimited…
	GoalTokenBudget  int64  `json:"goal_token_budget,omitempty"`
	MaxGoalBudget    int64  `json:"max_goal_token_budget,omitempty"` // what continue may raise it to
	ThreadID         string `json:"app_server_thread_id,omitempty"`
	ActiveTurnID     string `json:"active_turn_id,omitempty"`
	LastTurnID       string `json:"last_turn_id,omitempty"`
	ResultKind       string `json:"result_kind,omitempty"`
	ResultState      string `json:"result_state,omitempty"`
	RecoveryAttempts int    `json:"recovery_attempts"`
	RecoveryError    string `json:"recovery_error,omitempty"` // what was lost last, until it has gone on to its end
	ControlRevision  uint64 `json:"control_revision"`
	ControlStatus    string `json:"last_control_status,omitempty"` // of the control of that revision

	NativeRuns map[string]NativeView `json:"native_runs,omitempty"` // inside its engine: agent_run_ref -> native agent

	CreatedAt        time.Time    `json:"created_at"`
	StartedAt        *time.Time   `json:"started_at,omitempty"`
	FinishedAt       *time.Time   `json:"finished_at,omitempty"`
	LastProgressAt   *time.Time   `json:"last_progress_at,omitempty"`
	RuntimeCurrent   bool         `json:"runtime_current"`
	EvidenceComplete bool         `json:"evidence_complete"` // false once a hole was recorded
	EvidenceState    string       `json:"evidence_state,omitempty"`
	Error            string       `json:"error,omitempty"`
	Warning          string       `json:"warning,omitempty"`
	Failure          *FailureView `json:"failure,omitempty"`
	CancelReason     string       `json:"cancel_reason,omitempty"`
	RolledBack       bool         `json:"atomic_batch_rolled_back,omitempty"`
	Usage            *TokenUsage  `json:"usage,omitempty"`
	Patch            *PatchView   `json:"patch,omitempty"`

	// How the result is held to the role's contract; absent without one.
	ContractTransport       string         `json:"contract_transport,omitempty"` // native_schema_projection, validated_text
	ContractValid           *bool          `json:"contract_valid,omitempty"`     // absent before it was judged
	ContractRepairAttempted bool           `json:"contract_repair_attempted,omitempty"`
	ContractErrors          []string       `json:"contract_errors,omitempty"`
	Artifacts               []ArtifactView `json:"artifacts,omitempty"` // that the result declares, as they were

	// BudgetTokens and BudgetUSD are its part of the session's budget, beside
	// which its usage shows what it spent; absent without a limit.
	BudgetTokens int64       `json:"budget_tokens,omitempty"`
	BudgetUSD    json.Number `json:"budget_usd,omitempty"`
}

// ArtifactView is a file that a result declares, as it was found.
type ArtifactView struct {
	RelativePath string `json:"relative_path"` // below the job's folder
	SHA256       string `json:"sha256"`
	Size         int64  `json:"size"` // bytes
	MediaType    string `json:"media_type"`
}

// PatchView tells what a writing job changed in its worktree.
type PatchView struct {
	ChangedPaths []string `json:"changed_paths"`           // at most 200, sorted
	TotalPaths   int      `json:"total_paths"`             // of all changes
	FlaggedPaths []string `json:"flagged_paths,omitempty"` // need allow_flagged to be integrated
	RefusedPaths []string `json:"refused_paths,omitempty"` // can't be integrated; with their reasons in Warning
	SHA256       string   `json:"sha256"`                  // of the captured patch
	BaseCommit   string   `json:"base_commit"`             // what the worktree began with
	Integrated   bool     `json:"integrated"`              // it is in the workspace
}

// TokenUsage sums what the engine reported for a thread, over all its turns.
type TokenUsage struct {
	InputTokens       uint64 `json:"input_tokens"`
	CachedInputTokens uint64 `json:"cached_input_tokens"`
	OutputTokens      uint64 `json:"output_tokens"`
	EventCount        int    `json:"event_count"` // usage notices that were summed
}

// WaitRequest parks until a job ends or changes.
type WaitRequest struct {
	JobIDs         []string          `json:"job_ids"`
	TimeoutSeconds float64           `json:"timeout_seconds"` // 0 looks and returns
	IncludeResults bool              `json:"include_results,omitempty"`
	AfterRevision  map[string]uint64 `json:"after_revision,omitempty"` // job id -> revision seen; keys exactly the job ids
}

// WaitResponse says where the jobs stand.
type WaitResponse struct {
	Jobs              []JobView                `json:"jobs"`
	Unfinished        []string                 `json:"unfinished"`
	ProgressRevisions map[string]uint64        `json:"progress_revisions"` // job id -> revision, to pass back
	ChangedJobIDs     []string                 `json:"changed_job_ids"`
	TimedOutWaiting   bool                     `json:"timed_out_waiting"`
	Results           map[string]ResultPreview `json:"results,omitempty"` // job id -> preview, with include_results
	ResultReadingNote string                   `json:"result_reading_note,omitempty"`
}

// ResultPreview is the beginning of a result, at most 4000 code points.
type ResultPreview struct {
	Preview   string `json:"preview"`
	Truncated bool   `json:"truncated"`
}

// ResultRequest reads one page of a result.
type ResultRequest struct {
	JobID    string `json:"job_id"`
	Cursor   int    `json:"cursor"`    // code points
	MaxChars int    `json:"max_chars"` // code points; 0 means the default page
	// Text asks for the words of the result even where they are JSON that meets
	// its contract.
	Text bool `json:"text,omitempty"`
}

// ResultResponse is one page. Content is data from a worker: untrusted. It is
// the JSON value itself (format json) when the result meets its contract and
// fits into the page, else a text: of such a result the canonical JSON.
type ResultResponse struct {
	JobID         string `json:"job_id"`
	Status        string `json:"status"`
	ResultKind    string `json:"result_kind"`
	ResultState   string `json:"result_state"`
	ContentFormat string `json:"content_format"` // text, json
	Content       any    `json:"content"`
	Cursor        int    `json:"cursor"`
	NextCursor    *int   `json:"next_cursor"` // null at the end
	Truncated     bool   `json:"truncated"`
	TotalChars    int    `json:"total_chars"`
	SHA256        string `json:"sha256"` // of the whole text that the page is of
	Untrusted     bool   `json:"untrusted"`
	Error         string `json:"error,omitempty"`
}

// CancelRequest ends a job, and with Cascade all its descendants.
type CancelRequest struct {
	JobID   string `json:"job_id"`
	Reason  string `json:"reason,omitempty"` // at most 500 code points
	Cascade bool   `json:"cascade,omitempty"`
}

// CancelResponse lists the jobs that were touched, the target last.
type CancelResponse struct {
	Jobs []JobView `json:"jobs"`
}

// DispositionRequest accepts or rejects a result that was read.
type DispositionRequest struct {
	JobID  string `json:"job_id"`
	Reason string `json:"reason"` // 1 to 500 code points
}

// DispositionResponse is the job afterwards.
type DispositionResponse struct {
	Job JobView `json:"job"`
}

// IntegrateRequest brings an accepted job's patch into the workspace, whole or
// not at all.
type IntegrateRequest struct {
	JobID  string `json:"job_id"`
	Reason string `json:"reason"` // 1 to 500 code points
	// AllowFlagged also integrates changes to files that steer tools or agents
	// (CI, hooks, agent instructions).
	AllowFlagged bool `json:"allow_flagged,omitempty"`
}

// IntegrateResponse tells what changed in the workspace.
type IntegrateResponse struct {
	Job          JobView  `json:"job"`
	ChangedPaths []string `json:"changed_paths"` // relative to the repository's root
}

// StopRequest ends the session and everything it started.
type StopRequest struct {
	GraceSeconds float64 `json:"grace_seconds"` // how long a turn may take to end by itself
}

// StopResponse is the session after the stop; Survivors is empty when all
// processes are gone.
type StopResponse struct {
	Session   SessionView   `json:"session"`
	Survivors []ProcessView `json:"survivors"`
}

// AttachRequest asks how a terminal reaches the root's thread, and records the
// terminal's process once there is one.
type AttachRequest struct {
	PID int `json:"pid"` // of the terminal's process; 0 only asks
}

// AttachResponse is what `codex --remote` needs.
type AttachResponse struct {
	Session   SessionView `json:"session"`
	Socket    string      `json:"socket"`     // of the root's engine
	ThreadID  string      `json:"thread_id"`  // of the root
	CodexPath string      `json:"codex_path"` // the session's pinned Codex
	Home      string      `json:"home"`       // CODEX_HOME for the terminal
}

// ClientView is the MCP client that leads an ambient session.
type ClientView struct {
	Name     string `json:"name,omitempty"`
	PID      int    `json:"pid"` // of the MCP process that it started
	ThreadID string `json:"thread_id,omitempty"`
}

// JoinRequest makes the calling process the client that leads an ambient
// session.
type JoinRequest struct {
	ClientName string `json:"client_name"` // what the MCP client calls itself; may be empty
}

// JoinResponse is the session and the root's capability, which stays in the
// memory of the process that asked.
type JoinResponse struct {
	Session SessionView `json:"session"`
	Token   string      `json:"token"`
}

// NewsRequest asks what waits for the root of an ambient session.
type NewsRequest struct{}

// NewsResponse is what to tell it, once; empty: nothing.
type NewsResponse struct {
	Text string `json:"text"`
}

// FollowRequest streams what happens in the session.
type FollowRequest struct {
	AfterSeq uint64 `json:"after_seq"` // 0 begins with a snapshot of the present
}

// FollowEvent is one line of the stream. The stream ends after a terminal
// session status.
type FollowEvent struct {
	Seq     uint64       `json:"seq"` // of this supervisor's life; not durable
	At      time.Time    `json:"at"`
	Type    string       `json:"type"` // session, job, turn, item, message, tool, notice
	Agent   string       `json:"agent,omitempty"`
	JobID   string       `json:"job_id,omitempty"`
	Text    string       `json:"text,omitempty"` // one line for people, already cleaned
	Status  string       `json:"status,omitempty"`
	Session *SessionView `json:"session,omitempty"` // with type session
}

// AuditRequest reads audit rows after a sequence number.
type AuditRequest struct {
	AfterSeq int64 `json:"after_seq"`
	Limit    int   `json:"limit"` // 0 means 1000
}

// AuditResponse lists audit rows, oldest first.
type AuditResponse struct {
	Rows []AuditView `json:"rows"`
	More bool        `json:"more"`
}

// AuditView is one audit row.
type AuditView struct {
	Seq       int64          `json:"seq"`
	At        time.Time      `json:"at"`
	Event     string         `json:"event"` // run_started, agent_started, agent_result_accepted...
	SessionID string         `json:"session_id"`
	RunID     string         `json:"run_id"`
	JobID     string         `json:"job_id,omitempty"`
	Caller    string         `json:"caller,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// ControlRequest looks at an agent, or tells it what to do.
type ControlRequest struct {
	JobID       string `json:"job_id,omitempty"`        // of the worker; or
	AgentRunRef string `json:"agent_run_ref,omitempty"` // of the agent, the root among them; neither: the root
	// TargetThreadID is a native agent's in the engine of that agent: inspect, stop
	// and detach are then about it. Its agent_run_ref alone does as well.
	TargetThreadID string `json:"target_thread_id,omitempty"`
	Action         string `json:"action"`
	// ExpectedRevision is the control_revision that the caller has seen; every
	// action but inspect needs it.
	ExpectedRevision *uint64         `json:"expected_revision,omitempty"`
	Input            string          `json:"input,omitempty"`             // of steer, continue, finalize, fork
	GoalTokenBudget  int64           `json:"goal_token_budget,omitempty"` // of continue, in goal mode
	Effort           string          `json:"effort,omitempty"`            // of set_effort
	RequestID        string          `json:"request_id,omitempty"`        // of respond; as inspect shows it
	Response         json.RawMessage `json:"response,omitempty"`          // of respond: a JSON object
}

// ControlResponse tells what became of an action.
type ControlResponse struct {
	ControlRevision uint64         `json:"control_revision"`
	Job             *JobView       `json:"job,omitempty"`     // of a worker, afterwards
	Session         *SessionView   `json:"session,omitempty"` // of the root, afterwards
	Live            *LiveView      `json:"live"`              // of inspect; null when no engine answers
	Native          *NativeView    `json:"native,omitempty"`  // when it was about one, afterwards
	Result          map[string]any `json:"result"`            // of the other actions
}

// LiveView is what an agent's engine does at the moment.
type LiveView struct {
	ThreadID        string        `json:"thread_id"`
	ActiveTurnID    string        `json:"active_turn_id,omitempty"`
	PendingRequests []PendingView `json:"pending_requests"`
	GoalStatus      string        `json:"goal_status,omitempty"`
	Effort          string        `json:"effort"`
}

// NativeView is a native agent: a thread that an agent's engine started by
// itself.
type NativeView struct {
	AgentRunRef     string    `json:"agent_run_ref"`
	Agent           string    `json:"agent,omitempty"` // role; empty: none of the team's
	Nickname        string    `json:"nickname,omitempty"`
	ThreadID        string    `json:"thread_id"`
	ParentThreadID  string    `json:"parent_thread_id"`
	Status          string    `json:"status"` // idle, active, systemError, notLoaded, stopped, detached
	SeenAt          time.Time `json:"seen_at"`
	ControlRevision uint64    `json:"control_revision"`
}

// PendingView is something that an agent asks and waits for. What it says comes
// from a model: untrusted.
type PendingView struct {
	RequestID string          `json:"request_id"` // integer:1 or string:abc, stable
	Method    string          `json:"method"`     // of the app-server
	ThreadID  string          `json:"thread_id"`
	TurnID    string          `json:"turn_id,omitempty"`
	Params    json.RawMessage `json:"params"` // bounded
	AskedAt   time.Time       `json:"asked_at"`
}

// TraceRequest reads what an agent's engine and its host said to each other.
type TraceRequest struct {
	JobID       string `json:"job_id,omitempty"`        // of the worker; or
	AgentRunRef string `json:"agent_run_ref,omitempty"` // of the agent; neither: the root
	Cursor      int    `json:"cursor,omitempty"`        // of the first record
	Limit       int    `json:"limit,omitempty"`         // records; 0: at most 1000
	MaxBytes    int    `json:"max_bytes,omitempty"`     // of all records together; 0: 480 KiB
}

// TraceResponse is a page of a trace, oldest first. What it says comes from
// models and tools: untrusted.
type TraceResponse struct {
	AgentRunRef string `json:"agent_run_ref"`
	// Records are rows of events.jsonl. One that is too long for a page is
	// {trace_record_truncated, record_cursor, total_chars, …}: see
	// TraceRecordRequest. A line that is no JSON is {malformed_event}.
	Records                  []json.RawMessage `json:"records"`
	NextCursor               int               `json:"next_cursor"` // of the record after them
	AtEnd                    bool              `json:"at_end"`      // there is none yet
	PrivateReasoningIncluded bool              `json:"private_reasoning_included"`
	Untrusted                bool              `json:"untrusted"`
}

// TraceRecordRequest reads one record of a trace, part by part.
type TraceRecordRequest struct {
	JobID        string `json:"job_id,omitempty"`        // as in TraceRequest
	AgentRunRef  string `json:"agent_run_ref,omitempty"` //
	RecordCursor int    `json:"record_cursor"`
	Cursor       int    `json:"cursor,omitempty"`    // in code points
	MaxChars     int    `json:"max_chars,omitempty"` // at most 30,000, as 0 is
}

// TraceRecordResponse is a part of a record.
type TraceRecordResponse struct {
	AgentRunRef              string `json:"agent_run_ref"`
	RecordCursor             int    `json:"record_cursor"`
	Content                  string `json:"content"` // of the record's JSON text
	NextCursor               *int   `json:"next_cursor"`
	TotalChars               int    `json:"total_chars"`
	FilteredSHA256           string `json:"filtered_sha256"` // of the whole record as it is shown
	PrivateReasoningIncluded bool   `json:"private_reasoning_included"`
	Untrusted                bool   `json:"untrusted"`
}

// PauseRequest asks for a cold pause: every process of the session goes, every
// thread stays.
type PauseRequest struct{}

// PauseResponse is the session afterwards and the jobs that were paused with
// it.
type PauseResponse struct {
	Session      SessionView `json:"session"`
	AffectedJobs []string    `json:"affected_jobs"`
}

// ContinueRequest takes up a paused or suspended session: the root gets input
// as its next turn.
type ContinueRequest struct {
	Input        string `json:"input,omitempty"` // empty: go on
	AllowTainted bool   `json:"allow_tainted,omitempty"`
}

// ContinueResponse is the session afterwards.
type ContinueResponse struct {
	Session      SessionView       `json:"session"`
	ResumedJobs  []string          `json:"resumed_jobs"`
	ResumeErrors map[string]string `json:"resume_errors"` // job id -> why it stays paused
}

// ResumeRequest makes a session ready for a client: its root's engine lives
// afterwards. It starts no turn.
type ResumeRequest struct {
	AllowTainted bool `json:"allow_tainted,omitempty"`
}

// ResumeResponse is the session afterwards.
type ResumeResponse struct {
	Session        SessionView `json:"session"`
	ReconciledJobs []string    `json:"reconciled_jobs"` // that were found without their processes
}

// CompactRequest shortens the context of a paused session's root.
type CompactRequest struct{}

// DetachRequest takes the client's interest from the session; the work goes on.
type DetachRequest struct {
	// Reason is kept in the root's partial result, in the words of the client
	// that leaves: a time that ran out.
	Reason string `json:"reason,omitempty"`
}

// CancelSessionRequest ends a session at once.
type CancelSessionRequest struct {
	Reason string `json:"reason,omitempty"` // at most 500 code points
}

// TaintRequest marks that isolation could not be guaranteed.
type TaintRequest struct {
	Reason string `json:"reason"` // 1 to 500 code points
}
