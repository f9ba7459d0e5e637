package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// twoScript lets the root of either session wait in a command until the test
// makes a file in the workspace.
const twoScript = `
model m-lead
  when any user contains "first"
    step
      call exec_command {"cmd": "until test -e go-first; do sleep 0.1; done", "yield_time_ms": 30000}
    step
      say "FIRST"
  when any user contains "second"
    step
      call exec_command {"cmd": "until test -e go-second; do sleep 0.1; done", "yield_time_ms": 30000}
    step
      say "SECOND"
`

// startAndWait starts a session and returns once its root waits in its command.
func (tm *team) startAndWait(prompt string) {
	tm.t.Helper()
	tm.start(prompt)
	tm.await("the root's command", func(e control.FollowEvent) bool { return strings.HasPrefix(e.Text, "runs ") })
}

// letGo ends the command of a session's root.
func (tm *team) letGo(which string) {
	tm.t.Helper()
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go-"+which), nil, 0o600); err != nil {
		tm.t.Fatal(err)
	}
}

// gatewayURL returns the base URL on record of the session's gateway.
func (tm *team) gatewayURL() string {
	tm.t.Helper()
	var url string
	tm.view(func(tx *store.Tx) error {
		rec, err := tx.Session(tm.session)
		if err != nil {
			return err
		}
		row, err := tx.Gateway(rec.GatewayHash)
		if err == nil {
			url = row.BaseURL
		}
		return err
	})
	return url
}

// TestSharedGatewayKilledAfterItsStarter: two sessions share a gateway. The one
// that started it ends, the gateway is killed, and the other goes on with a new
// gateway on the same port, which was never free, and with the same engine.
func TestSharedGatewayKilledAfterItsStarter(t *testing.T) {
	t.Parallel()
	first := newTeam(t, twoScript, 0)
	first.startAndWait("first")
	second := first.another()
	second.startAndWait("second")
	gateway, engine, base := second.process("gateway", false), second.process("app-server", false), second.gatewayURL()
	if got := first.process("gateway", false); got != gateway {
		t.Fatalf("the sessions have gateways %v and %v, want one", got, gateway)
	}
	first.letGo("first")
	if out := first.finish(); out.Status != "completed" || out.Result != "FIRST" {
		t.Errorf("the first session ended %s with %q, want completed with FIRST", out.Status, out.Result)
	}

	supervisor := second.process("supervisor", false)
	testkit.Stop(t, supervisor) // so that the port is seen as it is between two gateways
	testkit.Kill9(t, gateway)
	conn, err := net.DialTimeout("tcp", strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1"), testkit.Patience)
	if err != nil {
		t.Errorf("the port was lost with the gateway: %v", err)
	} else {
		_ = conn.Close()
	}
	testkit.Cont(t, supervisor)
	second.letGo("second")
	out := second.finish()
	if out.Status != "completed" || out.Result != "SECOND" {
		t.Errorf("the second session ended %s with %q, want completed with SECOND", out.Status, out.Result)
	}
	if got := second.gatewayURL(); got != base {
		t.Errorf("the gateway moved from %s to %s", base, got)
	}
	if out.Session.Recoveries != 0 {
		t.Errorf("the gateway's death counted as %d recoveries", out.Session.Recoveries)
	}
	if engine.Alive() {
		t.Error("the engine outlived its session")
	}
	for _, tm := range []*team{first, second} {
		tm.assertSentOnce()
		tm.assertGone()
		tm.assertNoToken()
	}
}
