package control

import (
	"context"
	"errors"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/access"
)

// ErrDraining is the cause of a parked wait's context when the server shuts
// down. The client learns that nothing is lost and that it may call again.
var ErrDraining = errors.New("the supervisor is going down")

// Call is what is known of a request besides its body. Peer is proven by the
// kernel; the token and the ids are claims that the Handler has to check.
type Call struct {
	Peer     access.Peer
	Token    access.Token // empty for the operator
	Operator bool         // no token, and no ancestor of the peer is an agent of ours

	ThreadID string
	TurnID   string
	CallID   string
	// RequestKey is the client's own idempotency key; see Key.
	RequestKey string

	Build string // of the client, for texts only
}

// Key returns the idempotency key of the call: the client's own, or the one
// made of thread, turn and call. It is empty when the client gave neither, and
// then a repeat can't be told from a new request.
func (c Call) Key() string {
	return Meta{c.ThreadID, c.TurnID, c.CallID, c.RequestKey}.key()
}

// Meta is what a client says about where a call comes from. All fields may be
// empty; each is at most MaxMeta printable ASCII characters without spaces.
type Meta struct {
	ThreadID   string
	TurnID     string
	CallID     string
	RequestKey string
}

// MaxMeta is the longest id in a Meta, in bytes.
const MaxMeta = 200

func (m Meta) key() string {
	switch {
	case m.RequestKey != "":
		return "key/" + m.RequestKey
	case m.ThreadID != "" && m.TurnID != "" && m.CallID != "":
		return strings.Join([]string{"call", m.ThreadID, m.TurnID, m.CallID}, "/")
	}
	return ""
}

// Handler serves the verbs of one session. Its methods are called at the same
// time from many goroutines. An error that is a *core.Error reaches the client
// with its kind; any other counts as a RuntimeError.
//
// The context of Wait and Follow ends when the client leaves, and with the
// cause ErrDraining when the server shuts down. That of Spawn, Cancel, Accept,
// Reject, Integrate, Control, Stop and the verbs of the session ends only when
// the server is closed by force: a client that leaves does not undo what it
// asked for. The others end when the client leaves.
//
// Spawn, Cancel, Accept, Reject and Integrate may come again with the same
// Call.Key, because the answer was lost or a model repeats itself; the Handler
// then answers as it did the first time and changes nothing.
type Handler interface {
	Hello(context.Context, Call, HelloRequest) (*HelloResponse, error)
	Caller(context.Context, Call, CallerRequest) (*CallerResponse, error)
	Session(context.Context, Call, SessionRequest) (*SessionView, error)
	Spawn(context.Context, Call, SpawnRequest) (*SpawnResponse, error)
	Jobs(context.Context, Call, JobsRequest) (*JobsResponse, error)
	Wait(context.Context, Call, WaitRequest) (*WaitResponse, error)
	Result(context.Context, Call, ResultRequest) (*ResultResponse, error)
	Cancel(context.Context, Call, CancelRequest) (*CancelResponse, error)
	Accept(context.Context, Call, DispositionRequest) (*DispositionResponse, error)
	Reject(context.Context, Call, DispositionRequest) (*DispositionResponse, error)
	Integrate(context.Context, Call, IntegrateRequest) (*IntegrateResponse, error)
	Stop(context.Context, Call, StopRequest) (*StopResponse, error)
	Attach(context.Context, Call, AttachRequest) (*AttachResponse, error)
	Join(context.Context, Call, JoinRequest) (*JoinResponse, error)
	News(context.Context, Call, NewsRequest) (*NewsResponse, error)
	Audit(context.Context, Call, AuditRequest) (*AuditResponse, error)
	Control(context.Context, Call, ControlRequest) (*ControlResponse, error)
	Trace(context.Context, Call, TraceRequest) (*TraceResponse, error)
	TraceRecord(context.Context, Call, TraceRecordRequest) (*TraceRecordResponse, error)
	PauseSession(context.Context, Call, PauseRequest) (*PauseResponse, error)
	ContinueSession(context.Context, Call, ContinueRequest) (*ContinueResponse, error)
	ResumeSession(context.Context, Call, ResumeRequest) (*ResumeResponse, error)
	CompactSession(context.Context, Call, CompactRequest) (*SessionView, error)
	DetachSession(context.Context, Call, DetachRequest) (*SessionView, error)
	CancelSession(context.Context, Call, CancelSessionRequest) (*SessionView, error)
	TaintSession(context.Context, Call, TaintRequest) (*SessionView, error)
	// Follow calls emit for each event, from one goroutine, until the context
	// ends or emit fails; emit blocks while the client does not read.
	Follow(ctx context.Context, call Call, request FollowRequest, emit func(FollowEvent) error) error
}
