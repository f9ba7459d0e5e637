package supervisor

import (
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
)

// TestCheckResponse: an answer has the shape that its request takes, and grants
// no more than was asked for.
//
// Spec: A050
func TestCheckResponse(t *testing.T) {
	t.Parallel()
	const (
		patch = "applyPatchApproval"
		run   = "execCommandApproval"
		asked = `{"permissions":{"network":{"enabled":true},"fileSystem":{"write":["/a"]}}}`
	)
	for _, tt := range []struct {
		method, params, answer string
		fits                   bool
	}{
		{askUserInput, "", `{"answers":{"q":{"answers":["a","b"]}}}`, true},
		{askUserInput, "", `{"answers":{}}`, true},
		{askUserInput, "", `{"decision":"accept"}`, false},
		{askUserInput, "", `{"answers":{"q":["a"]}}`, false},
		{askUserInput, "", `{"answers":null}`, false},
		{askUserInput, "", `{"answers":{},"answers":{}}`, false},
		{askElicitation, "", `{"action":"decline"}`, true},
		{askElicitation, "", `{"action":"accept","content":{"name":"x"}}`, true},
		{askElicitation, "", `{"action":"approve"}`, false},
		{askElicitation, "", `{}`, false},
		{askCommand, "", `{"decision":"decline"}`, true},
		{askCommand, "", `{"decision":"acceptForSession"}`, true},
		{askCommand, "", `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}}}`, true},
		{askCommand, "", `{"decision":"approved"}`, false},
		{askCommand, "", `{"decision":{"accept":{}}}`, false},
		{askCommand, "", `{"decision":"accept","more":1}`, false},
		{askCommand, "", `{"Decision":"accept"}`, false},
		{askFileChange, "", `{"decision":"cancel"}`, true},
		{askFileChange, "", `{"decision":"approved"}`, false},
		{askFileChange, "", `{"decision":{"acceptWithExecpolicyAmendment":{}}}`, false},
		{askPermissions, asked, `{"permissions":{"network":{"enabled":false}},"scope":"turn"}`, true},
		{askPermissions, asked, `{"permissions":{"network":{"enabled":true},"fileSystem":{"write":["/a"]}},"scope":"session"}`, true},
		{askPermissions, asked, `{"permissions":{"network":true}}`, false},
		{askPermissions, asked, `{"permissions":{"fileSystem":{"write":["/"]}}}`, false},
		{askPermissions, asked, `{"permissions":{},"scope":"always"}`, false},
		{askPermissions, `{"permissions":{}}`, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`, false},
		{askPermissions, `not JSON`, `{"permissions":{"network":{"enabled":true}},"scope":"turn"}`, false},
		{patch, "", `{"decision":{"denied":{"rejection":"no"}}}`, true},
		{patch, "", `{"decision":"decline"}`, false},
		{run, "", `{"decision":"abort"}`, true},
		{run, "", `{"decision":"approved_mcp_policy_amendment"}`, true},
		{run, "", `{"decision":"decline"}`, false},
		{"account/chatgptAuthTokens/refresh", "", `{}`, false},
	} {
		err := checkResponse(tt.method, []byte(tt.params), []byte(tt.answer))
		if tt.fits && err != nil {
			t.Errorf("%s: %s: %v", tt.method, tt.answer, err)
		}
		if !tt.fits && core.KindOf(err) != core.KindValue {
			t.Errorf("%s: %s: error %v, want a ValueError", tt.method, tt.answer, err)
		}
	}
}
