package core_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// TestIDs: ids carry the time, a readable name and chance, and are safe as
// names of files whatever the name was.
func TestIDs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 23, 59, 58, 0, time.FixedZone("", 3600))
	random := func() *bytes.Reader { return bytes.NewReader([]byte{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4}) }
	for _, tt := range []struct{ got, want string }{
		{core.NewSessionID(now, "Offline Demo", random()), "20261130-225958-offline-demo-deadbeef"},
		{core.NewJobID(now, "../../etc", random()), "20261130-225958-etc-deadbeef"},
		{core.NewJobID(now, "日本", random()), "20261130-225958-x-deadbeef"},
		{core.NewRunID(random()), "run-000001-deadbeef"},
		{core.NewAgentRef(random()), "ar_deadbeef01020304"},
		{core.NewBatchID(random()), "batch-deadbeef"},
		{core.NewInputID(random()), "in-deadbeef01020304"},
	} {
		if tt.got != tt.want {
			t.Errorf("id = %q, want %q", tt.got, tt.want)
		}
		if !core.ValidID(tt.got) {
			t.Errorf("%q is not valid", tt.got)
		}
	}
	if id := core.NewJobID(now, strings.Repeat("long ", 40), random()); len(id) > 70 || !core.ValidID(id) {
		t.Errorf("a long name makes %q", id)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "-x", "A", "a b", "a\x00", strings.Repeat("a", 97)} {
		if core.ValidID(bad) {
			t.Errorf("%q counts as an id", bad)
		}
	}
}
