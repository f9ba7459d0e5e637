package profile

import (
	"encoding/json"
	"slices"
)

// SchemaVersion is the version of profile.toml, catalog.toml and of snapshots.
const SchemaVersion = 2

// Snapshot is a compiled profile. It is never changed.
//
// On disk it is the folder <state>/snapshots/<hash>: manifest.json, the strict
// JSON of this struct, and the files that it names by their digest. hash is the
// hex sha256 of manifest.json. Text reads a file and hashes its bytes each time.
type Snapshot struct {
	Hash        string `json:"-"`
	GatewayHash string `json:"gateway_hash"` // of the gateway's routes and their models alone; empty when none needs a gateway

	Schema         int                   `json:"schema_version"`
	ProfileID      string                `json:"profile_id"`
	ProfileVersion string                `json:"profile_version"`
	Description    string                `json:"description"`
	RootAgent      string                `json:"root_agent"`
	Coordination   Coordination          `json:"coordination"`
	Budget         Budget                `json:"budget"`
	Order          []string              `json:"agent_order"`      // agent ids: the root, then in order of delegation
	Agents         map[string]Agent      `json:"agents"`           // by id
	Routes         map[string]Route      `json:"routes"`           // by id; only those that an agent uses
	Models         map[string]Model      `json:"models"`           // by key; only those that an agent uses
	Resources      map[string]Resource   `json:"resources"`        // by id; only those that a route names
	ToolServers    map[string]ToolServer `json:"tool_mcp_servers"` // by id; only those that an agent is granted
	Bindings       map[string]string     `json:"bindings"`         // agent id -> model key, where the command line chose
	Skill          string                `json:"skill"`            // path in Files of the orchestration skill
	Files          map[string]string     `json:"files"`            // path -> hex sha256 of what it holds
	Warnings       []string              `json:"profile_warnings"` // what the operator should know, one sentence each

	texts map[string][]byte // of Files, of a snapshot that was just compiled
	dir   string            // of a snapshot that was loaded
}

// Coordination limits the team as a whole.
type Coordination struct {
	MaxDepth               int    `json:"max_depth"`                // of delegation, from 1: the root's jobs
	MaxActiveAgents        int    `json:"max_active_agents"`        // workers at once in a session
	MaxActiveWriters       int    `json:"max_active_writers"`       // of these with write access
	NativeNestedDelegation bool   `json:"native_nested_delegation"` // native agents may spawn
	MaxWakes               int    `json:"max_wakes"`                // turns started to tell an idle root; DefaultMaxWakes
	Wake                   string `json:"wake"`                     // WakeAuto, WakeNextTurn, WakeOff
}

// When an idle root is told of its workers.
const (
	WakeAuto     = "auto"      // at once, unless a terminal is attached
	WakeNextTurn = "next_turn" // with the next input
	WakeOff      = "off"       // only when it asks
)

// DefaultMaxWakes is how many turns are started in a session to tell its root
// of its workers, when the profile says nothing.
const DefaultMaxWakes = 50

// Budget limits what a session may spend, over the whole tree. Zero means no
// limit.
type Budget struct {
	Tokens            int64   `json:"tokens"`              // input and output, cached input included
	USD               float64 `json:"usd"`                 // by the models' prices
	ReserveTokens     int64   `json:"reserve_tokens"`      // of Tokens, kept for the root's final report
	ReserveUSD        float64 `json:"reserve_usd"`         // of USD, likewise
	AllowUnknownPrice bool    `json:"allow_unknown_price"` // USD counts only what has a price
}

// What an agent may do on disk.
const (
	ReadOnly         = "read-only"
	WorkspaceWrite   = "workspace-write"
	DangerFullAccess = "danger-full-access" // no sandbox: the operator's own rights; needs unsafe = true
)

// How an agent's work is bounded.
const (
	ModeTurn = "turn" // one turn answers the task
	ModeGoal = "goal" // goes on until its goal is complete or its budget used up
)

// How a contract is held.
const (
	ContractStrict = "strict" // what does not fit fails the job
	ContractWarn   = "warn"   // what does not fit is a warning
)

// How far an agent is trusted.
const (
	TrustStandard = "standard"
	TrustLow      = "low" // takes literal tasks only, never writes, has no network and no tools
)

// Which jobs an agent sees beside its own descendants.
const (
	VisibilityDescendants = "descendants"
	VisibilitySession     = "session"
)

// How an agent is run.
const (
	BackendMCP    = "mcp"    // a job with an engine of its own
	BackendNative = "native" // a subagent inside its parent's engine
)

// Agent is one role of the team.
type Agent struct {
	ID                       string              `json:"id"`
	Description              string              `json:"description"`               // for the agent that may spawn it
	Model                    string              `json:"model"`                     // key of Models
	Route                    string              `json:"route"`                     // the model's
	Effort                   string              `json:"effort"`                    // reasoning effort; "none" sends none
	Efforts                  []string            `json:"allowed_reasoning_efforts"` // what set_effort may choose
	Permissions              string              `json:"permissions"`               // ReadOnly, WorkspaceWrite, DangerFullAccess
	Unsafe                   bool                `json:"unsafe"`                    // said yes to DangerFullAccess
	Network                  bool                `json:"network"`                   // commands may reach the network
	ApprovalPolicy           string              `json:"approval_policy"`           // never, on-request
	MayAsk                   bool                `json:"may_ask"`                   // may put questions to a person
	ExecutionMode            string              `json:"execution_mode"`            // ModeTurn, ModeGoal
	GoalTokenBudget          int64               `json:"goal_token_budget"`         // 0 in mode turn
	MaxGoalTokenBudget       int64               `json:"max_goal_token_budget"`     // 0 in mode turn
	StallWarningSeconds      int                 `json:"stall_warning_seconds"`
	FinalizationGraceSeconds int                 `json:"finalization_grace_seconds"`
	OutputContract           string              `json:"output_contract"`      // path in Files of a JSON Schema; empty: none
	ContractEnforcement      string              `json:"contract_enforcement"` // ContractStrict, ContractWarn; empty without a contract
	TaskKinds                []string            `json:"task_kinds"`           // what it may be asked for; empty: no kinds are told apart
	Trust                    string              `json:"trust"`                // TrustStandard, TrustLow
	Visibility               string              `json:"visibility"`           // VisibilityDescendants, VisibilitySession
	WriteScopeRequired       bool                `json:"write_scope_required"` // writers must name what they change
	CanSpawn                 []string            `json:"can_spawn"`            // agent ids, in the order they are offered
	Controls                 map[string][]string `json:"controls"`             // agent id -> control actions it may use on its jobs
	Backends                 []string            `json:"backends"`             // BackendMCP, BackendNative
	ToolServers              map[string]ToolUse  `json:"tool_mcp_servers"`     // server id -> what of it
	MaxActive                int                 `json:"max_active"`           // jobs of this role at once; 0: no limit of its own
	MaxRecoveryAttempts      int                 `json:"max_recovery_attempts"`
	Guidance                 string              `json:"guidance"` // path in Files of its AGENTS.md
}

// Native reports whether the agent may run inside its parent's engine.
func (a Agent) Native() bool { return slices.Contains(a.Backends, BackendNative) }

// ToolUse is what an agent has of a tool server.
type ToolUse struct {
	EnabledTools []string `json:"enabled_tools"` // empty: all that the catalogue enables
	Required     bool     `json:"required"`      // no turn begins without it
}

// ToolServer is an MCP server that agents may be granted, from tool-mcp.d.
type ToolServer struct {
	ID                  string            `json:"id"`
	Transport           string            `json:"transport"` // TransportStdio, TransportHTTP
	Command             string            `json:"command"`   // of stdio; absolute, or found on PATH
	Args                []string          `json:"args"`
	EnvVars             []string          `json:"env_vars"` // names of the secrets and variables it is given
	Env                 map[string]string `json:"env"`      // plain values
	URL                 string            `json:"url"`      // of streamable_http
	BearerTokenEnvVar   string            `json:"bearer_token_env_var"`
	EnabledTools        []string          `json:"enabled_tools"` // empty: all
	DefaultApprovalMode string            `json:"default_tools_approval_mode"`
	StartupTimeoutSec   float64           `json:"startup_timeout_sec"`
}

// Transports of a tool server.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "streamable_http"
)

// How a route is reached.
const (
	DriverOffline     = "offline"       // the gateway's scripted model
	DriverCodexLogin  = "codex_chatgpt" // Codex itself, by the operator's ChatGPT login
	DriverCodexCustom = "codex_custom"  // Codex itself, as a model provider of its configuration
	DriverResponses   = "openai_responses"
	DriverChat        = "openai_chat"
	DriverAnthropic   = "anthropic_messages"
	DriverPlugin      = "plugin:" // prefix of <plugin>/<driver>
)

// What a route speaks upstream.
const (
	WireResponses = "openai_responses"   // OpenAI Responses
	WireChat      = "openai_chat"        // OpenAI Chat Completions
	WireAnthropic = "anthropic_messages" // Anthropic Messages
)

// How a route is paid for.
const (
	BillingAPI          = "api"          // by the token
	BillingSubscription = "subscription" // by the month, with limits of its own
	BillingLocal        = "local"        // on one's own machine
	BillingScripted     = "scripted"     // costs nothing, is no real model
)

// Route is a way to reach models.
type Route struct {
	ID                   string            `json:"id"`
	Name                 string            `json:"name"`
	Driver               string            `json:"driver"`         // Driver…
	APIOperator          string            `json:"api_operator"`   // who runs the endpoint
	AccessProduct        string            `json:"access_product"` // what was bought of it
	WireProtocol         string            `json:"wire_protocol"`  // Wire…
	BillingMode          string            `json:"billing_mode"`   // Billing…
	BaseURL              string            `json:"base_url"`
	CredentialEnv        string            `json:"credential_env"` // name of the secret that authorises; empty: none
	Resource             string            `json:"resource"`       // id of the capacity it uses; empty: unlimited
	TransportModalities  []string          `json:"transport_modalities"`
	PreservesToolMedia   bool              `json:"preserves_tool_media"`
	ToolResultModalities []string          `json:"tool_result_modalities"`
	Headers              map[string]string `json:"headers"`          // header -> value
	EnvHTTPHeaders       map[string]string `json:"env_http_headers"` // header -> name of the secret
	SessionHeader        string            `json:"session_header"`   // header that names the conversation; empty: none
	Body                 json.RawMessage   `json:"body"`             // JSON object of members that requests get; null: none
	Retries              *int              `json:"retries"`          // null: the gateway's default
	Quirks               json.RawMessage   `json:"quirks"`           // JSON object for the driver; null: none
	Script               string            `json:"script"`           // text of the offline driver's script
}

// Direct reports whether Codex reaches the route by itself, without a gateway.
func (r Route) Direct() bool {
	return r.Driver == DriverCodexLogin || r.Driver == DriverCodexCustom
}

// Model is a model as the team's agents see it.
type Model struct {
	Key              string   `json:"key"` // what Codex sends as "model"
	Route            string   `json:"route"`
	UpstreamID       string   `json:"upstream_id"`
	Maker            string   `json:"maker"`
	Modalities       []string `json:"modalities"`
	ReasoningLevels  []string `json:"reasoning_levels"`
	DefaultReasoning string   `json:"default_reasoning"`
	ContextWindow    int      `json:"context_window"` // tokens
	BaseInstructions string   `json:"base_instructions"`
	Units            int      `json:"units"` // of its route's resource that one agent holds
	Price            *Price   `json:"price"` // null: unknown
}

// Price is in USD per million tokens. A null part is unknown.
type Price struct {
	Input       *float64 `json:"input"`
	CachedInput *float64 `json:"cached_input"`
	CacheWrite  *float64 `json:"cache_write"`
	Output      *float64 `json:"output"`
	AsOf        string   `json:"as_of"` // day of the price list, 2026-11-30
}

// Resource is capacity that routes share.
type Resource struct {
	ID          string `json:"id"`
	MaxActive   int    `json:"max_active"` // units at once, over all sessions
	LockKey     string `json:"lock_key"`   // resources of one key share
	Description string `json:"description"`
}
