package gatewayplugin_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// TestOptionsAreDocumented: every option of a route and every quirk has its row.
func TestOptionsAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/GATEWAY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []reflect.Type{gatewayplugin.RouteOptions, reflect.TypeFor[translate.Quirks]()} {
		for i := range options.NumField() {
			name, _, _ := strings.Cut(options.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(raw), "\n| `"+name+"` |") {
				t.Errorf("docs/GATEWAY.md has no row for %s", name)
			}
		}
	}
}
