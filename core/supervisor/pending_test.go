package supervisor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

func mayAsk(_ *store.AgentRun, role *profile.Agent) {
	role.MayAsk, role.ApprovalPolicy = true, "on-request"
}

func ask(t *testing.T, a *agent, frame string) {
	t.Helper()
	if _, err := a.received(t.Context(), position{generation: 1, seq: 1}, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func keysOf(run store.AgentRun) (keys []string) {
	for _, p := range run.Pending {
		keys = append(keys, p.Key)
	}
	return keys
}

// TestRequestsOfOneThread: what waits for an answer is what the agent's own
// thread asked; an integer and a string of the same digits are two requests.
//
// Spec: A015
func TestRequestsOfOneThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, mayAsk)
	for _, frame := range []string{
		`{"id":1,"method":"item/tool/requestUserInput","params":{"threadId":"thread","turnId":"turn","questions":[]}}`,
		`{"id":"1","method":"execCommandApproval","params":{"conversationId":"thread"}}`,
		`{"id":2,"method":"item/tool/requestUserInput","params":{"threadId":"other"}}`,
		`{"id":3,"method":"item/commandExecution/requestApproval","params":{"conversationId":"thread"}}`,
		`{"id":"3","method":"item/commandExecution/requestApproval","params":{"conversationId":"other"}}`,
		`{"id":"1","method":"item/fileChange/requestApproval","params":{"conversationId":"thread"}}`,
		`{"id":4,"method":"item/fileChange/requestApproval","params":{}}`,
	} {
		ask(t, a, frame)
	}
	want := []string{"integer:1", "integer:3", "string:1"}
	if diff := cmp.Diff(want, keysOf(r.runNow("ar_0"))); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if j, err := r.cachedJob("j0"); err != nil || j.Status != core.JobWaiting {
		t.Errorf("the job is %v, %v; want waiting", j, err)
	}
	refused := []string{`"1"={}`, `4={"decision":"decline"}`}
	if diff := cmp.Diff(refused, host.answers); diff != "" {
		t.Errorf("refused at once (-want +got):\n%s", diff)
	}
	ask(t, a, `{"method":"serverRequest/resolved","params":{"threadId":"thread","requestId":1}}`)
	if diff := cmp.Diff([]string{"integer:3", "string:1"}, keysOf(r.runNow("ar_0"))); diff != "" {
		t.Errorf("after the integer was resolved (-want +got):\n%s", diff)
	}
}

// TestRespondOnce: an answer reaches the engine in the shape that was checked,
// takes the job on, and can't be given again.
func TestRespondOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, mayAsk)
	ask(t, a, `{"id":1,"method":"item/tool/requestUserInput","params":{"threadId":"thread","turnId":"turn"}}`)
	answer := func(revision uint64, text string) error {
		_, err := a.obey(t.Context(), &order{
			action: control.ActionRespond, expected: revision, caller: "operator", request: "integer:1", response: json.RawMessage(text),
		})
		return err
	}
	if err := answer(0, `{"decision":"accept"}`); core.KindOf(err) != core.KindValue {
		t.Errorf("an answer of another shape: %v", err)
	}
	if got := keysOf(r.runNow("ar_0")); len(got) != 1 || len(host.answers) != 0 {
		t.Errorf("it was taken all the same: %v, %v", got, host.answers)
	}
	const yes = `{"answers":{"q":{"answers":["yes"]}}}`
	if err := answer(1, yes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1=" + yes}, host.answers); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if j, err := r.cachedJob("j0"); err != nil || j.Status != core.JobRunning {
		t.Errorf("the job is %v, %v; want running", j, err)
	}
	if err := answer(2, yes); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "stale") {
		t.Errorf("the same answer again: %v", err)
	}
}

// TestAgentsThatMayNotAsk are refused at once, so that their turn goes on.
//
// Spec: R075
func TestAgentsThatMayNotAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, nil) // its policy is never
	ask(t, a, `{"id":1,"method":"item/commandExecution/requestApproval","params":{"threadId":"thread"}}`)
	ask(t, a, `{"id":2,"method":"item/tool/requestUserInput","params":{"threadId":"thread"}}`)
	if diff := cmp.Diff([]string{`1={"decision":"decline"}`, `2={"answers":{}}`}, host.answers); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if j, _ := r.cachedJob("j0"); j.Status != core.JobRunning || len(r.runNow("ar_0").Pending) != 0 {
		t.Errorf("the job is %s and waits for %v", j.Status, r.runNow("ar_0").Pending)
	}
}
