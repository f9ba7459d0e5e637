package smoke_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/smoke"
)

// TestSaid: a word counts when the thread's own agent said it, in any row of the
// log, bare or as a session keeps it.
//
// Spec: R117
func TestSaid(t *testing.T) {
	t.Parallel()
	const own = `{"method":"item/completed","params":{"threadId":"t1","item":{"type":"agentMessage","text":"it is WORD-1."}}}`
	for _, tt := range []struct {
		name, log string
		want      bool
	}{
		{"said", own, true},
		{"said, as a session keeps it, among what can't be read", "{\n" + `{"gen":1,"seq":4,"message":` + own + "}\n[1]\n", true},
		{"asked of it", `{"method":"item/completed","params":{"threadId":"t1","item":{"type":"userMessage","text":"say WORD-1"}}}`, false},
		{"said by another", strings.Replace(own, "t1", "t2", 1), false},
		{"begun and not ended", strings.Replace(own, "completed", "started", 1), false},
		{"another word", strings.Replace(own, "WORD-1", "WORD-2", 1), false},
		{"nothing", "", false},
	} {
		got, err := smoke.Said(strings.NewReader(tt.log), "t1", "WORD-1")
		if err != nil || got != tt.want {
			t.Errorf("%s: Said() = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}
