package appserver

import (
	"errors"
	"fmt"
)

// ErrNotSent is wrapped by the error of a call whose request did not leave this
// process: the peer can't have acted on it.
var ErrNotSent = errors.New("request was not sent")

// ErrUnanswered is wrapped by the error of a call whose request was handed to
// the socket and got no answer: the peer may or may not have acted on it.
var ErrUnanswered = errors.New("request was not answered")

// ErrClosed is wrapped when the connection was closed by Close.
var ErrClosed = errors.New("app-server connection is closed")

// ProtocolError says that the peer broke RFC 6455 or JSON-RPC. The connection
// is closed when it is reported.
type ProtocolError struct {
	Rule string // the rule that was broken, lower case
	Err  error  // cause; may be nil
}

// Error names the broken rule and its cause.
func (e *ProtocolError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("app-server broke the protocol: %s: %v", e.Rule, e.Err)
	}
	return "app-server broke the protocol: " + e.Rule
}

// Unwrap returns the cause.
func (e *ProtocolError) Unwrap() error { return e.Err }

// RPCError is an error answer of the app-server, unchanged.
type RPCError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// Error returns the app-server's own words and code.
func (e *RPCError) Error() string {
	return fmt.Sprintf("app-server refused: %s (code %d)", e.Message, e.Code)
}

// The answer of an app-server whose queue is full. Only this pair is retried:
// other errors share the code and mean something else.
const (
	overloadCode    = -32001
	overloadMessage = "Server overloaded; retry later."
)

// Overloaded tells whether the server said that its queue is full, in exactly
// the words that mean nothing else.
func (e *RPCError) Overloaded() bool {
	return e.Code == overloadCode && e.Message == overloadMessage
}
