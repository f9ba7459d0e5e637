package control

import (
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
)

const pathPrefix = "/v1/"

// admit decides from the connection and the header alone whether a request may
// be read, and finds its verb. The order is a rule: a peer that has no business
// here learns nothing about the later checks.
func (s *Server) admit(r *http.Request) (route, Call, error) {
	known, _ := r.Context().Value(peerKey{}).(peerOf)
	if err := admitPeer(known); err != nil {
		return nil, Call{}, err
	}
	call := callOf(r, known.peer)
	if got := r.Header.Get(HeaderAPI); got != strconv.Itoa(APIVersion) {
		return nil, Call{}, versionRefusal(got, call.Build, s.build)
	}
	verb, found := strings.CutPrefix(r.URL.Path, pathPrefix)
	serve := routes[verb]
	switch {
	case !found || serve == nil:
		return nil, Call{}, core.Errorf(core.KindValue, "control API %d of build %s has no %q", APIVersion, s.build, r.URL.Path)
	case r.Method != http.MethodPost:
		return nil, Call{}, core.Errorf(core.KindValue, "%s takes POST, not %s", r.URL.Path, r.Method)
	case r.ContentLength > MaxBody:
		return nil, Call{}, bodyTooLarge()
	case verb == VerbHello:
		return serve, call, nil // tells any process of ours who serves here
	}
	if call.Token == "" {
		if err := admitOperator(&call); err != nil {
			return nil, Call{}, err
		}
	}
	return serve, call, nil
}

// admitPeer takes processes of our user in our namespaces. Codex starts MCP
// servers outside of its sandbox, so they pass, and sandboxed commands do not,
// whatever token they have got hold of.
func admitPeer(known peerOf) error {
	if known.err != nil {
		return core.Errorf(core.KindPermission, "the control socket can't tell who is calling: %w", known.err)
	}
	if known.peer.UID != os.Getuid() {
		return core.Errorf(core.KindPermission, "user %d may not use the control socket of user %d", known.peer.UID, os.Getuid())
	}
	same, err := access.SameNamespaces(known.peer.PID)
	if err != nil {
		return core.Errorf(core.KindPermission, "the control socket can't tell whether process %d is sandboxed: %w", known.peer.PID, err)
	}
	if !same {
		return core.Errorf(core.KindPermission, "process %d runs in a sandbox and may not use the control socket", known.peer.PID)
	}
	return nil
}

// admitOperator takes a caller without a token for a person, unless it was
// started by an agent.
func admitOperator(call *Call) error {
	mark, found, err := access.MarkedAncestor(call.Peer.PID)
	if err != nil {
		return core.Errorf(core.KindPermission, "the control socket can't tell who started process %d: %w", call.Peer.PID, err)
	}
	if found {
		return core.Errorf(core.KindPermission, "process %d was started by agent run %s and has no capability of its own", call.Peer.PID, mark).
			WithRemedy("use the tools of the MCP server instead of the command line")
	}
	call.Operator = true
	return nil
}

func callOf(r *http.Request, peer access.Peer) Call {
	token, _ := strings.CutPrefix(r.Header.Get(HeaderToken), "Bearer ")
	return Call{
		Peer:       peer,
		Token:      access.Token(token),
		ThreadID:   r.Header.Get(HeaderThread),
		TurnID:     r.Header.Get(HeaderTurn),
		CallID:     r.Header.Get(HeaderCall),
		RequestKey: r.Header.Get(HeaderRequestKey),
		Build:      r.Header.Get(HeaderBuild),
	}
}

func versionRefusal(got, client, server string) error {
	if got == "" {
		got = "none"
	}
	if client == "" {
		client = "unknown"
	}
	return core.Errorf(core.KindRuntime, "build %s speaks control API %d, but build %s asked for API %s", server, APIVersion, client, got).
		WithRemedy("use the build that started the session")
}

func bodyTooLarge() error {
	return core.Errorf(core.KindValue, "the request body has more than %d bytes", MaxBody)
}
