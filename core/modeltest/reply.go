package modeltest

import (
	"fmt"
	"time"
)

// Usage is what a step claims to have cost, in tokens.
type Usage struct {
	Input     int // all input, cached included
	Cached    int
	Output    int // all output, reasoning included
	Reasoning int
}

// ProviderError is a provider's refusal.
type ProviderError struct {
	Status     int // HTTP status; 0 within a stream
	Type       string
	Code       string // may be empty
	Message    string
	RetryAfter string // value of the Retry-After header; empty: none
	ResetsAt   string // member resets_at of the error; empty: none
}

// Error returns the message with its type.
func (e *ProviderError) Error() string { return e.Type + ": " + e.Message }

func badRequest(format string, args ...any) *ProviderError {
	return &ProviderError{Status: 400, Type: "invalid_request_error", Code: "script", Message: fmt.Sprintf(format, args...)}
}

// reply is a decided answer: its parts in order, with everything expanded.
type reply struct {
	id      string // unique within the conversation
	model   string
	parts   []part
	usage   *Usage // nil: the wire gets none
	finish  string // stop, length or content_filter
	cut     cut
	failure *ProviderError // before any output, when its Status is set
}

type part struct {
	kind      actionKind // say, think, call, custom, delay, hold, cut, fail
	text      string     // text, arguments or input
	namespace string
	name      string
	callID    string
	delay     time.Duration
	failure   *ProviderError
}

// decide turns a chosen step into the answer.
func (c *choice) decide(model string) (*reply, error) {
	r := &reply{
		id: fmt.Sprintf("mt_%d", c.response), model: model, finish: "stop",
		usage: &Usage{Input: 100 * c.response, Output: 10},
	}
	for _, a := range c.step.actions {
		p, err := c.part(a, r)
		if err != nil {
			return nil, err
		}
		if p != nil {
			r.parts = append(r.parts, *p)
		}
	}
	return r, nil
}

// part expands one action, or takes over what concerns the whole reply.
func (c *choice) part(a action, r *reply) (*part, error) {
	p := &part{kind: a.kind, namespace: a.namespace, name: a.name, delay: a.delay, failure: a.failure}
	var err error
	switch a.kind {
	case actSay, actThink:
		p.text, err = c.view.expand(a.text)
	case actJSON:
		p.kind = actSay
		p.text, err = c.view.expandJSON(a.value)
	case actCall, actCustom:
		p.callID = fmt.Sprintf("call_%d_%d", c.response, len(r.parts)+1)
		if a.value != nil {
			p.text, err = c.view.expandJSON(a.value)
		} else {
			p.text, err = c.view.expand(a.text)
		}
	case actUsage:
		r.usage = a.usage
		return nil, nil
	case actFinish:
		r.finish = a.name
		return nil, nil
	case actError:
		r.failure = a.failure
		return nil, nil
	case actCut:
		if !a.cut.now {
			r.cut = a.cut
			return nil, nil
		}
	}
	return p, err
}
