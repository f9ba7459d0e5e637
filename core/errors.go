package core

import (
	"errors"
	"fmt"
)

// Kind classifies an error for programs and models. Its text appears literally
// in MCP error results and in the CLI's JSON output, so it is stable.
type Kind string

// The kinds. They keep the names that users of the earlier implementation
// match on.
const (
	KindValue           Kind = "ValueError"             // the caller asked for something that can't be
	KindRuntime         Kind = "RuntimeError"           // the request is fine, the state forbids it
	KindPermission      Kind = "PermissionError"        // the caller may not do this
	KindNotFound        Kind = "FileNotFoundError"      // no such session, job, profile or file
	KindOS              Kind = "OSError"                // the machine refused: disk, socket, process
	KindAdmission       Kind = "AdmissionError"         // capacity, role, depth, scope or route refused it
	KindAppServer       Kind = "AppServerError"         // the engine or its protocol failed
	KindDeliveryUnknown Kind = "ControlDeliveryUnknown" // the command may or may not have had its effect
	KindUnavailable     Kind = "UnavailableError"       // a process of ours is down; nothing is lost
)

// Error is the one error type that crosses package borders on purpose. Other
// errors are wrapped by it, or count as KindRuntime.
type Error struct {
	Kind    Kind
	Message string // what failed, lower case, names the thing and the place
	Remedy  string // what to do next, an imperative sentence; may be empty
	Reason  string // machine-readable cause of an admission refusal; may be empty

	// Holders are who has what an admission lacked, at most MaxHolders of them.
	Holders []Holder

	SessionID     string        // set by launch errors
	SessionStatus SessionStatus // set by launch errors

	Err error // cause; may be nil
}

// MaxHolders bounds how many holders a refusal names.
const MaxHolders = 8

// Holder is an agent that has capacity which another one was refused.
type Holder struct {
	SessionID  string   // its session
	JobID      string   // empty: the session's root
	Agent      string   // role; empty for a root
	Status     string   // of the job, or of the root's session
	Units      int      // of the resource that was lacking; 0 for other limits
	WriteScope []string // absolute; of a lease that was in the way
	Frees      string   // what would set it free, a clause
}

// Error returns the message, the cause and the remedy in one line.
func (e *Error) Error() string {
	text := e.Message
	if e.Err != nil {
		if cause := e.Err.Error(); cause != "" {
			text += ": " + cause
		}
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of the given kind. Each %w in the format is a cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Kind: kind, Message: err.Error()}
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		e.Err = quietError{err}
	}
	return e
}

// quietError keeps the causes in a text reachable without printing it again.
type quietError struct{ error }

func (q quietError) Error() string { return "" }
func (q quietError) Unwrap() error { return q.error }

// WithRemedy returns a copy of e that tells the reader what to do next.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	c := *e
	c.Remedy = fmt.Sprintf(format, args...)
	return &c
}

// KindOf returns the kind of err: that of the first Error in its chain, or
// KindRuntime for any other error. It returns "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindRuntime
}
