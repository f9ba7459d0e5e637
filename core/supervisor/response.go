package supervisor

import (
	"encoding/json"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// The decisions that a request for an approval takes (app-server 0.149.0).
var (
	commandDecisions = []string{"accept", "acceptForSession", "decline", "cancel"}
	fileDecisions    = []string{"accept", "acceptForSession", "decline", "cancel"}
	legacyDecisions  = []string{"approved", "approved_for_session", "approved_mcp_policy_amendment", "abort", "timed_out"}
	elicitActions    = []string{"accept", "decline", "cancel"}
)

// checkResponse refuses an answer whose shape is not the one that the request's
// method takes: Codex would take it for a refusal without a word.
func checkResponse(method string, params, answer []byte) error {
	var err error
	switch method {
	case askUserInput:
		var r struct {
			Answers map[string]struct {
				Answers []string `json:"answers"`
			} `json:"answers"`
		}
		err = exactly(answer, &r, "answers")
	case askElicitation:
		var r struct {
			Action  string          `json:"action"`
			Content json.RawMessage `json:"content"`
			Meta    json.RawMessage `json:"_meta"`
		}
		if err = exactly(answer, &r, "action"); err == nil {
			err = among("action", r.Action, elicitActions)
		}
	case askCommand:
		err = decision(answer, commandDecisions, "acceptWithExecpolicyAmendment", "applyNetworkPolicyAmendment")
	case askFileChange:
		err = decision(answer, fileDecisions)
	case askPermissions:
		err = checkPermissions(params, answer)
	case "applyPatchApproval", "execCommandApproval":
		err = decision(answer, legacyDecisions, "denied", "approved_execpolicy_amendment", "network_policy_amendment")
	default:
		return core.Errorf(core.KindValue, "invalid fields: nobody can answer %s", method)
	}
	if err != nil {
		return core.Errorf(core.KindValue, "invalid fields in the answer to %s: %w", method, err)
	}
	return nil
}

// exactly decodes an answer and demands its one member that can't be left out.
func exactly(answer []byte, into any, required string) error {
	if err := strictjson.Unmarshal(answer, into, nil); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(answer, &members); err != nil {
		return err
	}
	if raw, ok := members[required]; !ok || string(raw) == "null" {
		return core.Errorf(core.KindValue, "%s is missing", required)
	}
	return nil
}

func among(name, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return core.Errorf(core.KindValue, "%s %q is none of %q", name, value, allowed)
}

// decision checks {"decision": word}, or {"decision": {variant: {…}}} for the
// named variants.
func decision(answer []byte, words []string, variants ...string) error {
	var r struct {
		Decision json.RawMessage `json:"decision"`
	}
	if err := exactly(answer, &r, "decision"); err != nil {
		return err
	}
	var word string
	if json.Unmarshal(r.Decision, &word) == nil {
		return among("decision", word, words)
	}
	var variant map[string]json.RawMessage
	if err := json.Unmarshal(r.Decision, &variant); err != nil || len(variant) != 1 {
		return core.Errorf(core.KindValue, "decision must be one word or one variant")
	}
	for name := range variant {
		return among("decision", name, variants)
	}
	return nil
}

// checkPermissions lets an answer grant no more than was asked for.
func checkPermissions(params, answer []byte) error {
	type network struct {
		Enabled *bool `json:"enabled"`
	}
	type grant struct {
		Network    *network        `json:"network"`
		FileSystem json.RawMessage `json:"fileSystem"`
	}
	var r struct {
		Permissions grant  `json:"permissions"`
		Scope       string `json:"scope"`
		Strict      *bool  `json:"strictAutoReview"`
	}
	if err := exactly(answer, &r, "permissions"); err != nil {
		return err
	}
	var asked struct {
		Permissions grant `json:"permissions"`
	}
	_ = json.Unmarshal(params, &asked) // unreadable: nothing was asked for
	on := func(n *network) bool { return n != nil && n.Enabled != nil && *n.Enabled }
	if on(r.Permissions.Network) && !on(asked.Permissions.Network) {
		return core.Errorf(core.KindValue, "network was not asked for")
	}
	if given := r.Permissions.FileSystem; len(given) > 0 && string(given) != "null" && string(given) != string(asked.Permissions.FileSystem) {
		return core.Errorf(core.KindValue, "fileSystem must be what was asked for, or left out")
	}
	if r.Scope == "" {
		return nil
	}
	return among("scope", r.Scope, []string{"turn", "session"})
}
