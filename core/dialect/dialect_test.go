package dialect_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/dialect"
)

func TestHeaders(t *testing.T) {
	plain := func(name, value string) string { wrong, _ := dialect.HeaderFault(name, value); return wrong }
	secret := func(name string, keyed bool) string {
		wrong, _ := dialect.SecretHeaderFault(name, keyed)
		return wrong
	}
	session := func(name string) string { wrong, _ := dialect.SessionHeaderFault(name); return wrong }
	for _, tt := range []struct{ of, got, want string }{
		{"any", plain("X-Title", "a\tb é"), ""},
		{"a token of RFC 9110", plain("x_~!", "a"), ""},
		{"one that authorises", plain("x-api-KEY", "k"), "would put a key in the open"},
		{"one of ours", plain("transfer-encoding", "chunked"), "can't be set"},
		{"no token", plain("X:Y", "a"), "is no header that can be sent"},
		{"no name", plain("", "a"), "is no header that can be sent"},
		{"two lines", plain("X-Y", "a\r\nHost: h"), "is no header that can be sent"},
		{"a secret", secret("X-Org", true), ""},
		{"the key", secret("Authorization", false), ""},
		{"a second key", secret("X-Api-Key", true), "has two secrets"},
		{"a secret in one of ours", secret("cookie", false), "can't be set"},
		{"a secret in none", secret("é", false), "is no header that can be sent"},
		{"a conversation", session("x-session"), ""},
		{"a conversation as a key", session("authorization"), "can't name the conversation"},
		{"a conversation in none", session("a b"), "can't name the conversation"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.of, tt.got, tt.want)
		}
	}
}

func TestQuirks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		wrong string // beginning; empty: nothing is wrong
		right string // beginning
	}{
		{"no_images", true, "", ""},
		{"effort", map[string]any{"high": ""}, "", ""},
		{"max_tokens", map[string]any{"*": int64(64000)}, "", ""},
		{"thinking", "off", "", ""},
		{"No_Images", true, "is no quirk", "the quirks are effort, "},
		{"no_images", "yes", `can't be "yes"`, "must be true or false"},
		{"omit", []any{"a", 3}, `can't be ["a",3]`, "must be a list of strings"},
		{"max_tokens", map[string]any{"*": 0.5}, `can't be {"*":0.5}`, "must be a table of whole numbers"},
		{"thinking", true, "can't be true", "must be a string"},
		{"thinking", "on", `can't be "on"`, `must be "budget", "off" or ""`},
	} {
		wrong, right := dialect.QuirkFault(tt.name, tt.value)
		if !strings.HasPrefix(wrong, tt.wrong) || !strings.HasPrefix(right, tt.right) || (wrong == "") != (tt.wrong == "") || (right == "") != (tt.right == "") {
			t.Errorf("QuirkFault(%s, %v) = %q, %q, want %q, %q", tt.name, tt.value, wrong, right, tt.wrong, tt.right)
		}
	}
}
