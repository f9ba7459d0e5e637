package supervisor

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// resetTime finds the time at which a provider's limit resets. A time without
// a zone is kept as it stands and never guessed at.
var resetTime = regexp.MustCompile(`(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})(?:\s+((?i:utc))\b)?`)

// transportInfos are the codexErrorInfo values that mean that the way to the
// provider failed, not the request (app-server 0.149.0, CodexErrorInfo).
var transportInfos = map[string]bool{
	"responseStreamDisconnected": true, "responseStreamConnectionFailed": true, "httpConnectionFailed": true,
	"responseTooManyFailedAttempts": true, "serverOverloaded": true, "internalServerError": true,
}

// normalise turns a turn's error into a failure that says whether trying again
// can help. The gateway's own record of the request is better where there is
// one; Codex's words are what is left.
func normalise(status string, errorJSON []byte) *store.Failure {
	var e struct {
		Message string          `json:"message"`
		Info    json.RawMessage `json:"codexErrorInfo"`
	}
	_ = json.Unmarshal(errorJSON, &e) // an unreadable error still is a failed turn
	if e.Message == "" {
		e.Message = "the turn " + status
	}
	f := &store.Failure{Kind: "turn_failed", Message: e.Message}
	info := infoName(e.Info)
	lower := strings.ToLower(e.Message)
	switch {
	case info == "usageLimitExceeded", strings.Contains(lower, "usage limit"),
		strings.Contains(lower, "quota"), strings.Contains(lower, "limit will reset"):
		f.Kind, f.Retryable = "provider_usage_limited", true
		if m := resetTime.FindStringSubmatch(e.Message); m != nil {
			f.RetryAtRaw = m[1]
			if at, err := time.Parse(time.DateTime, m[1]); err == nil && m[2] != "" {
				f.RetryAt, f.RetryAtTimezone = at.UTC().Format("2006-01-02T15:04:05+00:00"), m[2]
			}
		}
	case strings.HasPrefix(e.Message, "Failed to parse tool call arguments"):
		f.Kind, f.Retryable = "malformed_tool_arguments", true
	case info == "contextWindowExceeded":
		f.Kind = "context_window"
	case transportInfos[info], strings.HasPrefix(e.Message, "stream disconnected before completion:"):
		f.Kind, f.Retryable = "provider_transport", true
	}
	return f
}

// infoName reads a codexErrorInfo: a string, or an object with one key.
func infoName(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || len(object) != 1 {
		return ""
	}
	for key := range object {
		name = key
	}
	return name
}
