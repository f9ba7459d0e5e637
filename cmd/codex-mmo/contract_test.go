package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// contractScript has the lead spawn the worker and wait for it; %s is how the
// worker answers.
const contractScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "Do it."}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    say "The lead is done."

model m-worker
%s
`

// The contracts of the tests: one that an engine can generate by, and one that
// it can't.
const (
	closedContract = `{"type":"object","additionalProperties":false,"required":["status","commands"],"properties":{
		"status":{"type":"string","enum":["done","partly"]},
		"commands":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["command","exit_code"],
			"properties":{"command":{"type":"string"},"exit_code":{"type":"integer"}}}}}}`
	closedProjection = `{"additionalProperties":false,"properties":{"commands":{"items":{"additionalProperties":false,` +
		`"properties":{"command":{"type":"string"},"exit_code":{"type":"integer"}},"required":["command","exit_code"],"type":"object"},"type":"array"},` +
		`"status":{"enum":["done","partly"],"type":"string"}},"required":["commands","status"],"type":"object"}`
	listContract = `{"type":"array","items":{"type":"string"}}`
)

// newContractTeam is a team whose worker's results are held to a contract.
func newContractTeam(t *testing.T, schema, enforcement, worker string) *team {
	t.Helper()
	tm := newTeam(t, fmt.Sprintf(contractScript, worker), 3)
	tm.holdTo("worker", schema, enforcement)
	return tm
}

// holdTo gives a role a contract.
func (tm *team) holdTo(agent, schema, enforcement string) {
	tm.t.Helper()
	if err := os.MkdirAll(filepath.Join(tm.profileDir(), "contracts"), 0o700); err != nil {
		tm.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tm.profileDir(), "contracts", "result.json"), []byte(schema), 0o600); err != nil {
		tm.t.Fatal(err)
	}
	head := "[agents." + agent + "]\n"
	tm.edit("profile.toml", head, fmt.Sprintf("%soutput_contract = \"contracts/result.json\"\ncontract_enforcement = %q\n", head, enforcement))
}

// goal makes the worker one in mode goal.
func (tm *team) goal(budget int) *team {
	tm.t.Helper()
	tm.edit("profile.toml", `description = "Works."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"`, fmt.Sprintf(`description = "Works."
permissions = "read-only"
approval_policy = "never"
goal_token_budget = %d
max_goal_token_budget = 1000000
execution_mode = "goal"`, budget))
	return tm
}

// sentTurn is a turn that was begun: what it was told, and the schema that its
// engine was to generate by.
type sentTurn struct{ Text, Schema string }

func (tm *team) sentTurns(job string) (list []sentTurn) {
	tm.t.Helper()
	for line := range strings.Lines(tm.result(job, "events.jsonl")) {
		var row struct {
			Direction string `json:"direction"`
			Message   struct {
				Method string `json:"method"`
				Params struct {
					Input []struct {
						Text string `json:"text"`
					} `json:"input"`
					OutputSchema json.RawMessage `json:"outputSchema"`
				} `json:"params"`
			} `json:"message"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			tm.t.Fatal(err)
		}
		if p := row.Message.Params; row.Direction == "sent" && row.Message.Method == "turn/start" {
			list = append(list, sentTurn{p.Input[0].Text, string(p.OutputSchema)})
		}
	}
	return list
}

// verdict is what a job's record says of its contract.
type verdict struct {
	Status, Transport, Kind string
	Valid                   bool
	Repaired                bool
	Errors                  []string
}

func verdictOf(j control.JobView) verdict {
	return verdict{j.Status, j.ContractTransport, j.ResultKind, j.ContractValid != nil && *j.ContractValid, j.ContractRepairAttempted, j.ContractErrors}
}

// read reads the job's result as a lead does, while its session is open.
func (tm *team) read(job string) *control.ResultResponse {
	tm.t.Helper()
	answer, err := tm.client.Result(tm.t.Context(), control.Meta{}, control.ResultRequest{JobID: job})
	if err != nil {
		tm.t.Fatal(err)
	}
	return answer
}

// TestStrictContract: a worker generates its result by its contract; what it
// claims to have run is looked up in its trace, it is told what does not hold
// and asked once to mend it, on the same thread.
func TestStrictContract(t *testing.T) {
	t.Parallel()
	const lie, truth = `{"status": "done", "commands": [{"command": "exit 3", "exit_code": 0}]}`, `{"status": "done", "commands": [{"command": "exit 3", "exit_code": 3}]}`
	tm := newContractTeam(t, closedContract, "strict", `
  step
    shell "exit 3"
  step
    json `+lie+`

  when user starts "Your result was checked"
    step
      json `+truth+`
`)
	tm.start("go")
	if out := tm.finish(); out.Status != "completed" {
		t.Errorf("exec ended %s", out.Status)
	}
	j := tm.job()
	if diff := cmp.Diff(verdict{"completed", "native_schema_projection", "final", true, true, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	turns := tm.sentTurns(j.JobID)
	if len(turns) != 2 || turns[0] != (sentTurn{"Do it.", closedProjection}) || turns[1].Schema != "" ||
		!strings.Contains(turns[1].Text, `exit_code of "exit 3" is 3 in the trace, the result says 0`) || !strings.Contains(turns[1].Text, "Repair only the final JSON result") {
		t.Errorf("the turns were begun with %q", turns)
	}
	if got := tm.result(j.JobID, "result.json"); got != `{"commands":[{"command":"exit 3","exit_code":3}],"status":"done"}`+"\n" {
		t.Errorf("the structured result is %q", got)
	}
	if h := tm.history(j.JobID); !cmp.Equal(h.statuses(), []string{"completed", "completed"}) {
		t.Errorf("the history is %+v", h)
	}
	guidance, err := os.ReadFile(filepath.Join(tm.folders.SessionDir(tm.session), "homes", "worker", "AGENTS.md"))
	if err != nil || !strings.Contains(string(guidance), closedContract) {
		t.Errorf("the worker is not told its contract: %v, %s", err, guidance)
	}
	tm.assertSentOnce()
	tm.assertGone()
}

// TestContractThatNobodyMeets: a result that does not meet a strict contract
// after its one repair fails the job, and is kept as partial.
func TestContractThatNobodyMeets(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    say "I am done."

  when user starts "Your result was checked"
    step
      say "Really."
`)
	tm.start("go")
	tm.finish()
	j := tm.job()
	want := verdict{"failed", "native_schema_projection", "partial", false, true, []string{"the result is no JSON: not valid JSON (byte 0)"}}
	if diff := cmp.Diff(want, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	if j.Failure == nil || j.Failure.Kind != "contract_invalid" || len(tm.sentTurns(j.JobID)) != 2 || tm.result(j.JobID, "partial-result.md") != "Really." {
		t.Errorf("it failed by %+v after the turns %q", j.Failure, tm.sentTurns(j.JobID))
	}
	tm.assertGone()
}

// TestContractInWords: a strict contract that no engine can be made to generate
// by is told and checked, and repaired once; the words are kept beside the JSON.
//
// Spec: R066
func TestContractInWords(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, listContract, "strict", `
  step
    say "First, second."

  when user contains "Repair only the final JSON result"
    step
      say "[ \"first\", \"second\" ]"
`)
	tm.start("go")
	tm.finish()
	j := tm.job()
	if diff := cmp.Diff(verdict{"completed", "validated_text", "final", true, true, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	turns := tm.sentTurns(j.JobID)
	if len(turns) != 2 || turns[0] != (sentTurn{Text: "Do it."}) || turns[1].Schema != "" || !strings.Contains(turns[1].Text, "Repair only the final JSON result") {
		t.Errorf("the turns were begun with %q", turns)
	}
	if h := tm.history(j.JobID); len(h.Turns) != 2 {
		t.Errorf("the history is %+v", h)
	}
	if last, file := tm.lastWords(j.JobID), tm.result(j.JobID, "result.md"); last != file || file != `[ "first", "second" ]` {
		t.Errorf("the last message is %q, the result %q", last, file)
	}
	if got := tm.result(j.JobID, "result.json"); got != `["first","second"]`+"\n" {
		t.Errorf("the structured result is %q", got)
	}
	tm.assertGone()
}

// lastWords is the last message in the event log of a job.
func (tm *team) lastWords(job string) (text string) {
	tm.t.Helper()
	for line := range strings.Lines(tm.result(job, "events.jsonl")) {
		var row struct {
			Message struct {
				Method string `json:"method"`
				Params struct {
					Item struct {
						Type string `json:"type"`
						Text string `json:"text"`
					} `json:"item"`
				} `json:"params"`
			} `json:"message"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			tm.t.Fatal(err)
		}
		if m := row.Message; m.Method == "item/completed" && m.Params.Item.Type == "agentMessage" {
			text = m.Params.Item.Text
		}
	}
	return text
}

// TestAdvisoryContract: a contract that only warns constrains nothing; a result
// that does not meet it stands, with a warning, as text, however much it looks
// like JSON.
//
// Spec: R065, R107
func TestAdvisoryContract(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "warn", `
  step
    json {"status": "unheard of"}
`)
	tm.openAfter()
	j := tm.awaitJob(tm.jobNow().JobID, "completed_with_warnings")
	want := verdict{"completed_with_warnings", "validated_text", "final", false, false, []string{"/: missing property 'commands'", "/status: value must be one of 'done', 'partly'"}}
	if diff := cmp.Diff(want, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	if turns := tm.sentTurns(j.JobID); len(turns) != 1 || turns[0].Schema != "" {
		t.Errorf("the turns were begun with %q", turns)
	}
	if got := tm.read(j.JobID); got.ContentFormat != "text" || got.Content != `{"status":"unheard of"}` {
		t.Errorf("it is read as %s: %q", got.ContentFormat, got.Content)
	}
	if !strings.Contains(j.Warning, "the result does not meet its contract: /: missing property 'commands'") {
		t.Errorf("the warning is %q", j.Warning)
	}
	raw, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"output_schema_path", "structured_output_supported"} {
		if strings.Contains(string(raw), name) {
			t.Errorf("the record has %s", name)
		}
	}
	tm.over()
}

// openAfter starts the team with a lead that stays at work when its worker has
// ended, so that the session can be asked.
func (tm *team) openAfter() {
	tm.t.Helper()
	tm.stays()
	tm.start("go")
	tm.await("the worker", func(e control.FollowEvent) bool { return e.JobID != "" })
}

// stays keeps the lead at work when its worker has ended or rests.
func (tm *team) stays() {
	tm.t.Helper()
	tm.edit("offline.script", `    say "The lead is done."
`, `    shell "sleep 600"
`)
}

// TestResultThatIsNull: null is a result, and is read as what it is.
//
// Spec: R108
func TestResultThatIsNull(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, `{"type":["null","object"]}`, "strict", "  step\n    say \"null\"\n")
	tm.openAfter()
	j := tm.awaitJob(tm.jobNow().JobID, "completed")
	if diff := cmp.Diff(verdict{"completed", "validated_text", "final", true, false, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	if got := tm.read(j.JobID); got.ContentFormat != "json" || got.Content != nil || got.TotalChars != 5 || got.NextCursor != nil {
		t.Errorf("it is read as %+v", got)
	}
	tm.over()
}

// TestLiteralResult: the result of a literal task says which operation it is the
// result of, and of which input; we know both.
//
// Spec: R062
func TestLiteralResult(t *testing.T) {
	t.Parallel()
	const data = `{"operation":"summarize_supplied","text":"One. Two."}`
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
	tm := newContractTeam(t, `{"type":"object","additionalProperties":false,"required":["operation","input_sha256"],"properties":{"operation":{"type":"string"},"input_sha256":{"type":"string"}}}`,
		"strict", `
  step
    json {"operation": "summarize_supplied", "input_sha256": "of something else"}

  when user contains "is \"of something else\", the task's is \"`+sum+`\""
    step
      json {"operation": "summarize_supplied", "input_sha256": "`+sum+`"}
`)
	tm.edit("offline.script", `"task": "Do it."`, `"literal_task": `+data)
	tm.edit("profile.toml", "[agents.worker]\n", "[agents.worker]\ntrust = \"low\"\n")
	tm.openAfter()
	j := tm.awaitJob(tm.jobNow().JobID, "completed")
	if diff := cmp.Diff(verdict{"completed", "native_schema_projection", "final", true, true, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	got := tm.read(j.JobID)
	if diff := cmp.Diff(any(map[string]any{"operation": "summarize_supplied", "input_sha256": sum}), got.Content); diff != "" || got.ContentFormat != "json" {
		t.Errorf("it is read as %s (-want +got):\n%s", got.ContentFormat, diff)
	}
	canonical := `{"input_sha256":"` + sum + `","operation":"summarize_supplied"}` + "\n"
	words, err := tm.client.Result(t.Context(), control.Meta{}, control.ResultRequest{JobID: j.JobID, Text: true})
	if err != nil {
		t.Fatal(err)
	}
	said := `{"operation":"summarize_supplied","input_sha256":"` + sum + `"}`
	for _, page := range []struct {
		page *control.ResultResponse
		of   string
	}{{got, canonical}, {words, said}} {
		if want := fmt.Sprintf("%x", sha256.Sum256([]byte(page.of))); page.page.SHA256 != want || page.page.TotalChars != len(page.of) {
			t.Errorf("the page is of %d characters with the hash %s, want those of %q", page.page.TotalChars, page.page.SHA256, page.of)
		}
	}
	if words.Content != said || words.ContentFormat != "text" {
		t.Errorf("the words are read as %s: %q", words.ContentFormat, words.Content)
	}
	if first := tm.sentTurns(j.JobID)[0].Text; !strings.Contains(first, data) || !strings.Contains(first, sum) {
		t.Errorf("the task was given as %q", first)
	}
	if run := tm.runOf(j.AgentRunRef); strings.Contains(strings.Join(run.Command, " "), "--output-schema") {
		t.Errorf("its app-server was started by %q", run.Command)
	}
	tm.over()
}

const doneJSON = `{"status": "done", "commands": []}`

// TestGoalGivesItsResult: a worker in mode goal works without a schema, and
// gives its result in one more turn, by its contract's.
//
// Spec: R063, R121
func TestGoalGivesItsResult(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    goal complete
  step
    say "The work is done."

  when user starts "Your goal is reached"
    step
      json `+doneJSON+`
`).goal(100_000)
	tm.start("go")
	tm.finish()
	j := tm.job()
	if diff := cmp.Diff(verdict{"completed", "native_schema_projection", "final", true, false, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	turns := tm.sentTurns(j.JobID)
	if len(turns) != 2 || turns[0] != (sentTurn{Text: "Do it."}) || turns[1].Schema != closedProjection {
		t.Errorf("the turns were begun with %q", turns)
	}
	if h := tm.history(j.JobID); !cmp.Equal(h.statuses(), []string{"completed", "completed"}) {
		t.Errorf("the history is %+v", h)
	}
	if j.ExecutionMode != "goal" || j.GoalTokenBudget != 100_000 || j.MaxGoalBudget != 1_000_000 {
		t.Errorf("the job works in mode %s for %d of %d tokens", j.ExecutionMode, j.GoalTokenBudget, j.MaxGoalBudget)
	}
	if command := tm.runOf(j.AgentRunRef).Command; !slices.Contains(command, "app-server") || slices.Contains(command, "exec") || slices.Contains(command, "--output-schema") {
		t.Errorf("its app-server was started by %q", command)
	}
	tm.assertGone()
}

// TestFinalizeAGoal: a worker that is told to finalize in the middle of its work
// stops it, and what it left running, and generates its result in another turn.
//
// Spec: R070
func TestFinalizeAGoal(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    shell "sleep 600"

  when user starts "Finalize now"
    step
      json `+doneJSON+`
`).goal(100_000)
	j := tm.working()
	answer := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionFinalize}, 0)
	if answer.Result["action"] != "finalize" {
		t.Errorf("the answer is %v", answer.Result)
	}
	end := tm.awaitJob(j.JobID, "completed")
	if diff := cmp.Diff(verdict{"completed", "native_schema_projection", "final", true, false, nil}, verdictOf(end)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	turns := tm.sentTurns(j.JobID)
	if len(turns) != 2 || turns[0].Schema != "" || turns[1].Schema != closedProjection {
		t.Errorf("the turns were begun with %q", turns)
	}
	var sent []string
	for _, r := range rows(t, filepath.Join(tm.folders.JobDir(j.JobID), "events.jsonl")) {
		if r.Direction == "sent" && strings.HasPrefix(r.Message.Method, "turn/") {
			sent = append(sent, r.Message.Method)
		}
	}
	if diff := cmp.Diff([]string{"turn/start", "turn/interrupt", "turn/start"}, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if socket := tm.folders.ControlSocket(tm.session); len(socket) >= 100 || strings.HasPrefix(socket, tm.folders.JobDir(j.JobID)) {
		t.Errorf("the control socket is %s", socket)
	}
	tm.over()
}

// TestSpentGoalWithAWholeResult: a goal whose budget is used up in the turn that
// gives a result which meets the contract has ended, with a warning.
//
// Spec: R082
func TestSpentGoalWithAWholeResult(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    json `+doneJSON+`
    usage input=5000 output=10
`).goal(1000)
	tm.start("go")
	tm.finish()
	j := tm.job()
	if diff := cmp.Diff(verdict{"completed_with_warnings", "native_schema_projection", "final", true, false, nil}, verdictOf(j)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	if j.GoalStatus != "budgetLimited" || !strings.Contains(j.Warning, "fully validated strict result") {
		t.Errorf("the goal is %s, the warning %q", j.GoalStatus, j.Warning)
	}
	if turns := tm.sentTurns(j.JobID); len(turns) != 1 {
		t.Errorf("the turns were begun with %q", turns)
	}
	tm.result(j.JobID, "result.md")
	tm.result(j.JobID, "result.json")
	tm.assertGone()
}

// TestSpentGoalThatNobodyHeardOf: that is so too when the engine went before
// anybody heard of the turn's end.
//
// Spec: R083
func TestSpentGoalThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    shell "while [ ! -e go ]; do sleep 0.1; done"
  step
    json `+doneJSON+`
    usage input=500000 output=10
`).goal(400_000)
	tm.stays()
	j := tm.working()
	tm.endsUnheard(`{\"status\":\"done\"`)
	end := tm.awaitJob(j.JobID, "completed_with_warnings")
	if got := verdictOf(end); !got.Valid || end.GoalStatus != "budgetLimited" || end.RecoveryAttempts < 1 || !strings.Contains(end.Warning, "fully validated strict result") {
		t.Errorf("it ended %+v, its goal %s, after %d recoveries, with %q", got, end.GoalStatus, end.RecoveryAttempts, end.Warning)
	}
	if turns := tm.sentTurns(j.JobID); len(turns) != 1 {
		t.Errorf("the turns were begun with %q", turns)
	}
	tm.over()
}

// endsUnheard lets the worker's command end, and kills its engine and host once
// the last words of its turn, as JSON has them, are on disk: nobody hears of it.
func (tm *team) endsUnheard(words string) {
	tm.t.Helper()
	engine, host := tm.process("app-server", true), tm.process("host", true)
	testkit.Stop(tm.t, host)
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		tm.t.Fatal(err)
	}
	tm.until("the end of the turn on disk", func() bool {
		return tm.rolloutHas("worker", `"last_agent_message":"`+words)
	})
	testkit.Kill9(tm.t, engine)
	testkit.Kill9(tm.t, host)
}

// TestGoalThatNobodyHeardOf: a goal that is not reached goes on when the engine
// went between two of its turns.
func TestGoalThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, fmt.Sprintf(contractScript, `
  step
    shell "while [ ! -e go ]; do sleep 0.1; done"
  step
    say "HALF"

  when user starts "[recovery]"
    step
      goal complete
    step
      say "WHOLE"
`), 3).goal(400_000)
	tm.stays()
	j := tm.working()
	tm.endsUnheard("HALF")
	if end := tm.awaitJob(j.JobID, "completed"); end.GoalStatus != "complete" || tm.result(j.JobID, "result.md") != "WHOLE" {
		t.Errorf("it ended %+v", end)
	}
	tm.assertInputs("worker", "task turn_done", "recovery turn_done")
	tm.over()
}

// TestSpentGoalIsFinalized: one whose result does not meet it rests, and gives
// its result when it is told to finalize.
//
// Spec: R084
func TestSpentGoalIsFinalized(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    say "Half of it."
    usage input=5000 output=10

  when user starts "Finalize now"
    step
      json {"status": "partly", "commands": []}
`).goal(1000)
	tm.openAfter()
	j := tm.awaitJob(tm.jobNow().JobID, "suspended")
	if got := verdictOf(j); j.GoalStatus != "budgetLimited" || got.Valid || got.Kind != "partial" {
		t.Errorf("it rests as %+v, its goal is %s", got, j.GoalStatus)
	}
	answer := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionFinalize}, 0)
	if answer.Result["action"] != "finalize" {
		t.Errorf("the answer is %v", answer.Result)
	}
	end := tm.awaitJob(j.JobID, "completed_with_warnings")
	if diff := cmp.Diff(verdict{"completed_with_warnings", "native_schema_projection", "final", true, false, nil}, verdictOf(end)); diff != "" {
		t.Errorf("the verdict (-want +got):\n%s", diff)
	}
	if end.GoalStatus != "budgetLimited" || end.ThreadID != j.ThreadID || end.ControlStatus != "applied" {
		t.Errorf("it ended %+v", end)
	}
	tm.result(j.JobID, "partial-result.md")
	tm.result(j.JobID, "result.json")
	tm.over()
}

// TestResultThatNobodyHeardOf: a result that was generated before the engine
// went is found on its thread; no turn is begun for it again.
//
// Spec: R122
func TestResultThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	tm := newContractTeam(t, closedContract, "strict", `
  step
    goal complete
  step
    say "The work is done."

  when user starts "Your goal is reached"
    step
      shell "while [ ! -e go ]; do sleep 0.1; done"
    step
      json `+doneJSON+`
`).goal(100_000)
	tm.stays()
	j := tm.working()
	tm.endsUnheard(`{\"status\":\"done\"`)
	end := tm.awaitJob(j.JobID, "completed")
	if got := verdictOf(end); !got.Valid || end.RecoveryAttempts < 1 {
		t.Errorf("it ended %+v after %d recoveries", got, end.RecoveryAttempts)
	}
	if turns := tm.sentTurns(j.JobID); len(turns) != 2 {
		t.Errorf("the turns were begun with %q", turns)
	}
	tm.over()
}
