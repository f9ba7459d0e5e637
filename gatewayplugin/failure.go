package gatewayplugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The codes of response.failed by which Codex decides what it does. Seen with
// Codex 0.149.0 and 0.171.0, which differ in what they make of HTTP statuses
// but agree on these.
const (
	codeRetry     = "server_error"            // samples the turn again
	codeRateLimit = "rate_limit_exceeded"     // samples again after "try again in N s"
	codeStop      = "invalid_prompt"          // ends the turn, shows the message
	codeQuota     = "insufficient_quota"      // ends the turn as a usage limit
	codeContext   = "context_length_exceeded" // ends the turn, may compact
	codeBusy      = "server_is_overloaded"    // ends the turn as an overload
)

const (
	// maxMessage bounds a provider's message, in runes.
	maxMessage = 1000
	// maxRateWait is the longest wait that is left to Codex; a longer one is
	// the orchestrator's to decide.
	maxRateWait = 20 * time.Second
	// defaultRateWait is what Codex is told when the provider says nothing.
	defaultRateWait = 2 * time.Second
)

// failure is why an attempt gave no whole answer.
type failure struct {
	kind     string // as TelemetryEvent.failure_kind
	code     string // of response.failed
	message  string // bounded, without secrets
	outcome  string // "": failed
	resetsAt string
	wait     time.Duration // until another attempt may help; 0: not said
}

func (f *failure) outcomeWord() string {
	if f.outcome == "" {
		return "failed"
	}
	return f.outcome
}

// clientGone is the failure of an exchange whose client has left.
var clientGone = &failure{kind: "cancelled", outcome: "cancelled", message: "the client left before the answer was whole"}

// providerError is an error of a provider in the forms that are about.
type providerError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"` // string or number
	ResetsAt json.RawMessage `json:"resets_at"`
	ResetsIn json.RawMessage `json:"resets_in_seconds"`
}

// parseError reads an error body: {"error": {...}}, {"error": "text"}, the
// bare object, or text.
func parseError(body []byte) providerError {
	var outer struct {
		Error json.RawMessage `json:"error"`
		providerError
	}
	if json.Unmarshal(body, &outer) != nil {
		return providerError{Message: string(body)}
	}
	if len(outer.Error) == 0 || string(outer.Error) == "null" {
		return outer.providerError
	}
	var inner providerError
	if json.Unmarshal(outer.Error, &inner) != nil {
		inner.Message = scalar(outer.Error)
	}
	return inner
}

// scalar returns a JSON string's value, and any other JSON as it is.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// overflow finds the phrases by which providers without a code say that the
// conversation is too long.
var overflow = regexp.MustCompile(`(?i)maximum context length|context window|context[ _]length|prompt is too long|input is too long|too many tokens|exceeds? (the )?(model'?s )?(available )?context`)

// noCredit finds the phrase by which Anthropic says, as a mere bad request,
// that the account is empty.
var noCredit = regexp.MustCompile(`(?i)credit balance is too low`)

// classify decides what a provider's error means. status is 0 for an error
// within a stream.
func classify(status int, header http.Header, body []byte, secrets secretValues) *failure {
	e := parseError(body)
	code := strings.ToLower(scalar(e.Code))
	word := code + " " + strings.ToLower(e.Type)
	if n, err := strconv.Atoi(code); err == nil && status == 0 && n >= 400 && n < 600 {
		status = n // OpenRouter puts the status into the stream's error
	}
	f := &failure{resetsAt: resetTime(e, secrets), message: secrets.clean(e.Message)}
	if f.message == "" {
		f.message = "the provider gave no reason"
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(word, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("context_length_exceeded", "context_window"), overflow.MatchString(e.Message) && status < 500 && status != 429:
		f.kind, f.code = "context_window", codeContext
	case status == http.StatusPaymentRequired, noCredit.MatchString(e.Message), has("insufficient_quota", "usage_limit_reached", "usage_not_included", "billing", "credit"):
		f.kind, f.code = "usage_limited", codeQuota
	case status == http.StatusTooManyRequests, has("rate_limit"):
		f.rateLimit(header)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, has("authentication", "invalid_api_key", "permission"):
		f.kind, f.code = "auth", codeStop
		f.message = "the provider refused the route's credentials: " + f.message
	case status == 529, status == http.StatusServiceUnavailable, has("overloaded"):
		f.kind, f.code = "overloaded", codeRetry
		f.busy(header)
	case status >= 500, status == http.StatusRequestTimeout, has("server_error", "api_error", "timeout"):
		f.kind, f.code = "provider_error", codeRetry
	case status == 0 && !has("invalid", "bad_request", "not_found", "unsupported"):
		f.kind, f.code = "provider_error", codeRetry // an unknown error in a stream may pass
	case has("content_filter", "content_policy", "moderation"):
		f.kind, f.code = "content_filter", codeStop
	default:
		f.kind, f.code = "bad_request", codeStop
	}
	return f
}

// rateLimit makes Codex wait as long as the provider asks, or end the turn
// when that is too long for a wait within a turn.
func (f *failure) rateLimit(header http.Header) {
	f.kind, f.code = "rate_limited", codeRateLimit
	wait, said := retryAfter(header)
	if !said {
		wait = defaultRateWait
	}
	if wait > maxRateWait {
		f.code = codeQuota
		f.resetsAfter(header)
		return
	}
	f.wait = wait
	// Codex reads the wait out of the message, in just these words.
	f.message = fmt.Sprintf("%s Please try again in %gs.", f.message, wait.Seconds())
}

// busy makes an overload end the turn when the provider says that it will last.
func (f *failure) busy(header http.Header) {
	wait, said := retryAfter(header)
	if said && wait > maxRateWait {
		f.code = codeBusy
		f.resetsAfter(header)
		return
	}
	f.wait = wait
}

func (f *failure) resetsAfter(header http.Header) {
	if f.resetsAt == "" {
		f.resetsAt = bounded(header.Get("Retry-After"))
	}
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(header http.Header) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}

// resetTime returns the reset time in the provider's own form.
func resetTime(e providerError, secrets secretValues) string {
	if at := scalar(e.ResetsAt); at != "" {
		return secrets.word(at)
	}
	if in := scalar(e.ResetsIn); in != "" {
		return secrets.word("in " + in + " seconds")
	}
	return ""
}

// decimal returns a JSON number's text, or "" for anything else.
func decimal(raw json.RawMessage) string {
	var n json.Number
	if len(raw) == 0 || json.Unmarshal(raw, &n) != nil {
		return ""
	}
	return bounded(n.String())
}
