package supervisor

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// TestRuntimeCurrent: every public view says whether the work runs on this
// build; a digest that can't be had is no error and says no.
//
// Spec: R047
func TestRuntimeCurrent(t *testing.T) {
	t.Parallel()
	own := func() (string, error) { return "aa", nil }
	unreadable := func() (string, error) { return "", errors.New("no such file") }
	for _, tt := range []struct {
		name string
		pin  store.BinaryPin
		own  runtime
		want bool
	}{
		{"the same content", store.BinaryPin{SHA256: "aa", Stamp: "1"}, runtime{"2", own}, true},
		{"other content", store.BinaryPin{SHA256: "bb", Stamp: "1"}, runtime{"2", own}, false},
		{"the kept file itself", store.BinaryPin{SHA256: "aa", Stamp: "1"}, runtime{"1", unreadable}, true},
		{"the file that was kept", store.BinaryPin{SHA256: "aa", Stamp: "1", Origin: "2"}, runtime{"2", unreadable}, true},
		{"an unreadable build", store.BinaryPin{SHA256: "aa"}, runtime{"", unreadable}, false},
		{"nothing recorded and nothing readable", store.BinaryPin{}, runtime{"", unreadable}, false},
	} {
		if got := tt.own.current(tt.pin); got != tt.want {
			t.Errorf("%s: runtime_current = %v, want %v", tt.name, got, tt.want)
		}
	}
	for name, view := range map[string]any{
		"session": ViewSession(&store.Session{}),
		"job":     ViewJob(&store.Job{}, nil, store.BinaryPin{}),
	} {
		raw, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		if got, ok := fields["runtime_current"]; !ok || got != false {
			t.Errorf("the view of an empty %s has runtime_current %v (%v), want false", name, got, ok)
		}
	}
}

// TestUndelivered: a spawn whose answer never reached the model is repeated
// under its old key, once, and only by the same request in the same turn.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	call := func(turn, id string) control.Call {
		return control.Call{ThreadID: "th", TurnID: turn, CallID: id}
	}
	request := func(task string) control.SpawnRequest {
		return control.SpawnRequest{Agents: []control.SpawnSpec{{Agent: "a", Task: task}}}
	}
	const first = "ar_1/call/th/t1/c1"
	var u undelivered
	if got := u.begin("ar_1", call("t1", "c1"), request("x")); got != first {
		t.Fatalf("the first call's key is %q, want %q", got, first)
	}
	if got := u.begin("ar_1", call("t1", "c2"), request("x")); got != "ar_1/call/th/t1/c2" {
		t.Errorf("a delivered spawn was taken for a repeat: %q", got)
	}
	u.failed("ar_1", "c1")
	for name, got := range map[string]string{
		"another task":  u.begin("ar_1", call("t1", "c3"), request("y")),
		"another agent": u.begin("ar_2", call("t1", "c5"), request("x")),
	} {
		if got == first {
			t.Errorf("%s was taken for a repeat", name)
		}
	}
	if got := u.begin("ar_1", call("t1", "c6"), request("x")); got != first {
		t.Errorf("the repeat's key is %q, want %q", got, first)
	}
	if got := u.begin("ar_1", call("t1", "c7"), request("x")); got == first {
		t.Error("a second repeat was given the same key: it is a new request")
	}
	u.failed("ar_1", "c7")
	u.forget("ar_1", call("t1", "c7"))
	if got := u.begin("ar_1", call("t1", "c8"), request("x")); got != "ar_1/call/th/t1/c8" {
		t.Errorf("a spawn that started nothing was taken for a repeat: %q", got)
	}
	u.failed("ar_1", "c8")
	if got := u.begin("ar_1", call("t2", "c9"), request("x")); got != "ar_1/call/th/t2/c9" {
		t.Errorf("a spawn of an earlier turn was taken for a repeat: %q", got)
	}
	if n := len(u.calls); n != 2 { // ar_2's and the last one
		t.Errorf("%d spawns are remembered, want 2", n)
	}
}
