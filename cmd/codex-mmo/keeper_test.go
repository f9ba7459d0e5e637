package main_test

import (
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestKeeperKilledTwice: each keeper that dies is replaced, and the last one
// does what the first would have done: it starts a supervisor that was killed,
// and ends with one that has nothing left to do.
func TestKeeperKilledTwice(t *testing.T) {
	t.Parallel()
	crashed(t, func(tm *team) {
		keeper := tm.process("keeper", false)
		for n := 1; n <= 2; n++ {
			testkit.Kill9(t, keeper)
			next := tm.keeper(n)
			if next == keeper {
				t.Errorf("keeper %d is %v, which was killed", n, next)
			}
			keeper = next
		}
		supervisor := tm.process("supervisor", false)
		testkit.Kill9(t, supervisor)
		if now := tm.process("supervisor", false); now == supervisor {
			t.Errorf("the supervisor is still %v", now)
		}
		if now := tm.process("keeper", false); now != keeper {
			t.Errorf("the keeper of the new supervisor is %v, want %v", now, keeper)
		}
	})
}

// keeper returns the session's keeper after it was replaced n times.
func (tm *team) keeper(n int) process.Identity {
	tm.t.Helper()
	seen := 0
	tm.await("another keeper", func(e control.FollowEvent) bool {
		if e.Text == "keeper lost; another one takes over" {
			seen++
		}
		return seen == n
	})
	return tm.process("keeper", false)
}
