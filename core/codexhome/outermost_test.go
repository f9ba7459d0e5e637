package codexhome

import (
	"slices"
	"testing"
)

// TestOutermost: a denied path covers what lies below it, and nothing that only
// begins with the same letters.
func TestOutermost(t *testing.T) {
	t.Parallel()
	got := outermost([]string{"/s/run/x", "/c", "/s", "/s/run", "/sessions", "/s", "/c/d", "/c-codex", "/c/run", "/c.old"})
	if want := []string{"/c", "/c-codex", "/c.old", "/s", "/sessions"}; !slices.Equal(got, want) {
		t.Errorf("outermost = %v, want %v", got, want)
	}
}
