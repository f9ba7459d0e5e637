package core_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
)

// TestErrorf: the text stands once, every cause is found, and the kind survives
// being wrapped.
func TestErrorf(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	err := core.Errorf(core.KindOS, "doing this: %w and %w", io.EOF, other)
	if got, want := err.Error(), "doing this: EOF and other"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if !errors.Is(err, io.EOF) || !errors.Is(err, other) {
		t.Errorf("%v lost a cause", err)
	}
	wrapped := fmt.Errorf("outside: %w", err.WithRemedy("do %s", "that"))
	if got, want := wrapped.Error(), "outside: doing this: EOF and other; do that"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	for _, tt := range []struct {
		err  error
		want core.Kind
	}{{nil, ""}, {io.EOF, core.KindRuntime}, {wrapped, core.KindOS}} {
		if got := core.KindOf(tt.err); got != tt.want {
			t.Errorf("KindOf(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}
