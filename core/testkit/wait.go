package testkit

import (
	"testing"
	"time"
)

// Patience is how long the kit waits for an event before it fails the test.
// It is generous because CI machines are slow; a passing test never spends it.
const Patience = 30 * time.Second

// Await returns the next value of events, or the zero value when events is
// closed. The test fails when nothing comes within Patience.
func Await[T any](t testing.TB, events <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case event := <-events:
		return event
	case <-timer.C:
		t.Fatalf("waited %v in vain for %s", Patience, what)
		panic("unreachable")
	}
}
