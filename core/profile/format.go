package profile

// The TOML files of a team. The tags are the formats' one source: the decoder
// goes by toml, the published JSON Schemas by doc, enum, min and max, and
// docs/PROFILES.md is held against them.

type profileFile struct {
	SchemaVersion int                  `toml:"schema_version" doc:"2" min:"2" max:"2" required:"yes"`
	ID            string               `toml:"id" doc:"names the profile: a-z, 0-9, - and _" required:"yes"`
	Version       string               `toml:"version" doc:"of the profile, for people" required:"yes"`
	Description   string               `toml:"description" doc:"what the team is for, in a sentence"`
	RootAgent     string               `toml:"root_agent" doc:"the agent that leads" required:"yes"`
	Skill         string               `toml:"skill" doc:"file with the orchestration skill that agents who delegate are given"`
	Coordination  coordinationFile     `toml:"coordination" doc:"limits of the team as a whole"`
	Budget        budgetFile           `toml:"budget" doc:"what a session may spend, over its whole tree of agents"`
	Agents        map[string]agentFile `toml:"agents" doc:"the roles, by id" required:"yes"`
}

type coordinationFile struct {
	MaxDepth               *int    `toml:"max_depth" doc:"how deep delegation may go; the root's own jobs are 1 deep" min:"1" max:"8" default:"1"`
	MaxActiveAgents        *int    `toml:"max_active_agents" doc:"jobs at work at the same time in a session" min:"1" max:"64" default:"4"`
	MaxActiveWriters       *int    `toml:"max_active_writers" doc:"those among them that may write" min:"0" max:"64" default:"1"`
	NativeNestedDelegation bool    `toml:"native_nested_delegation" doc:"native agents may spawn, too" default:"false"`
	MaxWakes               *int    `toml:"max_wakes" doc:"turns that a session starts by itself to tell an idle root of its workers" min:"0" max:"10000" default:"50"`
	Wake                   *string `toml:"wake" doc:"when an idle root is told: at once, with the next input, or when it asks" enum:"auto,next_turn,off" default:"auto"`
}

type budgetFile struct {
	Tokens            int64   `toml:"tokens" doc:"input and output tokens, cached input included; 0: no limit" min:"0"`
	USD               float64 `toml:"usd" doc:"US dollars by the models' prices; 0: no limit" min:"0"`
	ReserveTokens     int64   `toml:"reserve_tokens" doc:"of tokens, kept for the root's final report" min:"0"`
	ReserveUSD        float64 `toml:"reserve_usd" doc:"of usd, kept for the root's final report" min:"0"`
	AllowUnknownPrice bool    `toml:"allow_unknown_price" doc:"usd counts only models that have a price, instead of refusing the others" default:"false"`
}

type agentFile struct {
	Model                    string                 `toml:"model" doc:"key of a model in the catalogue" required:"yes"`
	Description              string                 `toml:"description" doc:"what other agents read to decide whom to ask" required:"yes"`
	Guidance                 string                 `toml:"guidance" doc:"file with what the agent is told about its role" required:"yes"`
	ReasoningEffort          string                 `toml:"reasoning_effort" doc:"one of the model's reasoning_levels; without it the model's default"`
	AllowedReasoningEfforts  []string               `toml:"allowed_reasoning_efforts" doc:"what set_effort may choose; without it the one effort"`
	Permissions              *string                `toml:"permissions" doc:"what its commands may change on disk" enum:"read-only,workspace-write,danger-full-access" default:"read-only"`
	Unsafe                   bool                   `toml:"unsafe" doc:"says yes to danger-full-access: no sandbox" default:"false"`
	Network                  bool                   `toml:"network" doc:"its commands may reach the network" default:"false"`
	ApprovalPolicy           *string                `toml:"approval_policy" doc:"never: what needs an approval is refused; on-request: somebody is asked" enum:"never,on-request" default:"never"`
	MayAsk                   bool                   `toml:"may_ask" doc:"may put questions to a person" default:"false"`
	ExecutionMode            *string                `toml:"execution_mode" doc:"turn: one turn answers the task; goal: it goes on until its goal is complete" enum:"turn,goal" default:"turn"`
	GoalTokenBudget          *int64                 `toml:"goal_token_budget" doc:"tokens of a goal, in mode goal" min:"1"`
	MaxGoalTokenBudget       *int64                 `toml:"max_goal_token_budget" doc:"what continue may raise it to" min:"1"`
	StallWarningSeconds      *int                   `toml:"stall_warning_seconds" doc:"seconds without progress until a warning" min:"60" max:"86400" default:"600"`
	FinalizationGraceSeconds *int                   `toml:"finalization_grace_seconds" doc:"seconds from when a result is asked for in which it may be sent back for repair" min:"1" max:"3600" default:"120"`
	OutputContract           string                 `toml:"output_contract" doc:"file with the JSON Schema of its result"`
	ContractEnforcement      *string                `toml:"contract_enforcement" doc:"strict: a result that does not fit fails the job; warn: it is a warning" enum:"strict,warn" default:"strict"`
	TaskKinds                []string               `toml:"task_kinds" doc:"kinds of task it takes; none: they are not told apart"`
	Trust                    *string                `toml:"trust" doc:"low: literal tasks only, no writing, no network, no tools" enum:"standard,low" default:"standard"`
	Visibility               *string                `toml:"visibility" doc:"whose results it may read: its own jobs', or the whole session's" enum:"descendants,session" default:"descendants"`
	WriteScopeRequired       bool                   `toml:"write_scope_required" doc:"jobs that write must name what they change" default:"false"`
	CanSpawn                 []string               `toml:"can_spawn" doc:"agents that it may delegate to, in the order they are offered"`
	Controls                 map[string]controlFile `toml:"controls" doc:"control actions on the jobs of other agents, by agent"`
	Backends                 []string               `toml:"backends" doc:"mcp: a job with an engine of its own; native: a subagent inside its parent's engine" enum:"mcp,native"`
	ToolServers              map[string]toolUseFile `toml:"tool_mcp_servers" doc:"tool servers it may use, by id"`
	MaxActive                *int                   `toml:"max_active" doc:"jobs of this agent at work at the same time, over all sessions of the profile; 0: no limit of its own" min:"0" max:"64" default:"0"`
	MaxRecoveryAttempts      *int                   `toml:"max_recovery_attempts" doc:"how often its lost processes are replaced" min:"0" max:"100" default:"3"`
}

type controlFile struct {
	Actions []string `toml:"actions" doc:"of inspect, trace, steer, interrupt, pause, continue, finalize, compact, set_effort, respond, fork, detach, stop" enum:"inspect,trace,steer,interrupt,pause,continue,finalize,compact,set_effort,respond,fork,detach,stop" required:"yes"`
}

type toolUseFile struct {
	EnabledTools []string `toml:"enabled_tools" doc:"of the server's tools; without it all that the server enables"`
	Required     bool     `toml:"required" doc:"no turn begins without it" default:"false"`
}

type catalogFile struct {
	SchemaVersion int                     `toml:"schema_version" doc:"2" min:"2" max:"2" required:"yes"`
	Routes        map[string]routeFile    `toml:"routes" doc:"ways to reach models, by id"`
	Models        map[string]modelFile    `toml:"models" doc:"models, by key: <route>__<slug of the provider's id>"`
	Resources     map[string]resourceFile `toml:"resources" doc:"capacity that routes share, by id"`
}

type routeFile struct {
	Name                 string            `toml:"name" doc:"for people" required:"yes"`
	Driver               string            `toml:"driver" doc:"who speaks to it: offline, codex_chatgpt, codex_custom, openai_responses, openai_chat, anthropic_messages, or plugin:<plugin>/<driver>" required:"yes"`
	APIOperator          string            `toml:"api_operator" doc:"who runs the endpoint"`
	AccessProduct        string            `toml:"access_product" doc:"what was bought of them"`
	WireProtocol         string            `toml:"wire_protocol" doc:"what is spoken to it" enum:"openai_responses,openai_chat,anthropic_messages" required:"yes"`
	BillingMode          string            `toml:"billing_mode" doc:"by the token, by the month, on one's own machine, or not at all" enum:"api,subscription,local,scripted" required:"yes"`
	BaseURL              string            `toml:"base_url" doc:"https URL, with the API's version; http for loopback alone"`
	CredentialEnv        string            `toml:"credential_env" doc:"name of the key in credentials.env or the environment"`
	Resource             string            `toml:"resource" doc:"id of the capacity it uses"`
	TransportModalities  []string          `toml:"transport_modalities" doc:"what it carries" enum:"text,image"`
	PreservesToolMedia   bool              `toml:"preserves_tool_media" doc:"images in the outputs of tools arrive" default:"false"`
	ToolResultModalities []string          `toml:"tool_result_modalities" doc:"what the outputs of tools may hold" enum:"text,image"`
	Headers              map[string]string `toml:"headers" doc:"HTTP headers with plain values"`
	EnvHTTPHeaders       map[string]string `toml:"env_http_headers" doc:"HTTP headers whose values are secrets, by the secret's name"`
	SessionHeader        string            `toml:"session_header" doc:"HTTP header that names the conversation, by an id that tells nothing of this machine"`
	Body                 map[string]any    `toml:"body" doc:"members that each request gets unless it has them"`
	Retries              *int              `toml:"retries" doc:"how often a request is sent again before a part of its answer has come" min:"0" max:"10" default:"2"`
	Quirks               map[string]any    `toml:"quirks" doc:"how the provider differs from its wire's maker; see docs/GATEWAY.md"`
	Script               string            `toml:"script" doc:"file with what the scripted models say, of driver offline"`
}

type modelFile struct {
	Route            string     `toml:"route" doc:"id of its route" required:"yes"`
	UpstreamID       string     `toml:"upstream_id" doc:"the provider's own id" required:"yes"`
	Maker            string     `toml:"maker" doc:"who made it" required:"yes"`
	Modalities       []string   `toml:"modalities" doc:"what it reads" enum:"text,image" required:"yes"`
	ReasoningLevels  []string   `toml:"reasoning_levels" doc:"how hard it can think: none, minimal, low, medium, high, xhigh, max" enum:"none,minimal,low,medium,high,xhigh,max" required:"yes"`
	DefaultReasoning string     `toml:"default_reasoning" doc:"one of them" required:"yes"`
	ContextWindow    int        `toml:"context_window" doc:"tokens" min:"1024" required:"yes"`
	BaseInstructions string     `toml:"base_instructions" doc:"its system prompt; without it the bundled one"`
	Units            *int       `toml:"units" doc:"of its route's resource that one agent holds" min:"1" max:"1000" default:"1"`
	Price            *priceFile `toml:"price" doc:"US dollars per million tokens; without it unknown"`
}

type priceFile struct {
	Input       *float64 `toml:"input" doc:"of input tokens" min:"0" max:"1000000"`
	CachedInput *float64 `toml:"cached_input" doc:"of input tokens that the provider had cached" min:"0" max:"1000000"`
	CacheWrite  *float64 `toml:"cache_write" doc:"of input tokens that the provider writes to its cache; without it as input" min:"0" max:"1000000"`
	Output      *float64 `toml:"output" doc:"of output tokens" min:"0" max:"1000000"`
	AsOf        string   `toml:"as_of" doc:"day of the price list: 2026-11-30"`
}

type resourceFile struct {
	MaxActive   int    `toml:"max_active" doc:"units at once, over all sessions" min:"1" max:"10000" required:"yes"`
	LockKey     string `toml:"lock_key" doc:"resources of one key share; without it the resource's id"`
	Description string `toml:"description" doc:"for people"`
}

type toolFile struct {
	SchemaVersion int                       `toml:"schema_version" doc:"2" min:"2" max:"2" required:"yes"`
	Servers       map[string]toolServerFile `toml:"tool_mcp_servers" doc:"MCP servers that agents may be granted, by id" required:"yes"`
}

type toolServerFile struct {
	Transport           string            `toml:"transport" doc:"how it is reached" enum:"stdio,streamable_http" required:"yes"`
	Command             string            `toml:"command" doc:"program, of transport stdio"`
	Args                []string          `toml:"args" doc:"its arguments; never secrets, others can read them"`
	EnvVars             []string          `toml:"env_vars" doc:"names of secrets that it is given in its environment"`
	Env                 map[string]string `toml:"env" doc:"plain values that it is given in its environment"`
	URL                 string            `toml:"url" doc:"of transport streamable_http"`
	BearerTokenEnvVar   string            `toml:"bearer_token_env_var" doc:"name of the secret that is sent as its bearer"`
	EnabledTools        []string          `toml:"enabled_tools" doc:"of its tools; without it all"`
	DefaultApprovalMode *string           `toml:"default_tools_approval_mode" doc:"which of its tools need an approval" enum:"auto,prompt,writes,approve" default:"writes"`
	StartupTimeoutSec   *float64          `toml:"startup_timeout_sec" doc:"seconds until it must answer" min:"1" max:"86400" default:"30"`
}

type settingsFile struct {
	CodexBin                  string  `toml:"codex_bin" doc:"the Codex to use: a path, or a name on PATH; MMO_CODEX_BIN goes before it"`
	CodexVersions             *string `toml:"codex_versions" doc:"which Codex will do: one that has all we use, or one whose whole protocol was reviewed" enum:"compatible,reviewed" default:"compatible"`
	AuthLinkMode              *string `toml:"auth_link_mode" doc:"how homes get the operator's ChatGPT login: by a link, or by a copy of their own" enum:"shared,copy" default:"shared"`
	GatewayIdleTimeoutSeconds *int    `toml:"gateway_idle_timeout_seconds" doc:"seconds that a gateway without sessions stays" min:"0" max:"86400" default:"120"`
	Profile                   string  `toml:"profile" doc:"the active profile: of new sessions that name none"`
}

// retiredKeys are keys of earlier formats and what to write instead.
var retiredKeys = map[string]string{
	"execution_policy":            "use execution_mode and goal_token_budget",
	"hard_wall_timeout_seconds":   "work is bounded by tokens: use goal_token_budget; exec has --wall",
	"initial_active_work_seconds": "work is bounded by tokens: use goal_token_budget",
	"max_active_work_seconds":     "work is bounded by tokens: use max_goal_token_budget",
	"renewal_quantum_seconds":     "nothing is renewed: use goal_token_budget",
	"progress_interval_seconds":   "progress is seen by event: use stall_warning_seconds",
	"timeout_seconds":             "work is bounded by tokens: use goal_token_budget; exec has --wall",
	"automatic_renewal_enabled":   "nothing is renewed: use goal_token_budget",
	"output_schema_path":          "use output_contract",
	"structured_output_supported": "the contract's schema decides",
	"active_work_cap_seconds":     "work is bounded by tokens: use max_goal_token_budget",
	"root":                        "use root_agent",
	"sandbox_mode":                "use permissions",
	"sandbox":                     "use permissions",
	"profile_version":             "use version",
	"default_profile":             "use profile",
}
