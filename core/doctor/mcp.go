package doctor

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// MCPProbe is what came of the talk with our own MCP server.
type MCPProbe struct {
	Passed     bool            `json:"passed"`
	Initialize json.RawMessage `json:"initialize"` // the whole answer; null: none came
	Tools      []string        `json:"tools"`      // names, in their order
}

// mcpProtocol is the version of MCP that the probe asks for, as Codex does.
const mcpProtocol = "2025-06-18"

// probeID stands for a session, a run, an agent and a profile where the probe
// needs a name.
const probeID = "doctor"

// probeTools are the tools that the probe's caller may use, and must be
// offered.
var probeTools = []string{"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel"}

// mcp starts `codex-mmo mcp` as Codex would, with a control socket of its own,
// and talks to it in two phases: initialize, then the list of tools, for which
// it has to ask the control socket.
func (p *patient) mcp(ctx context.Context) outcome {
	if p.ground().err != nil {
		return outcome{findings: []Finding{notChecked(groupMCP, "handshake", "the folders")}}
	}
	probe := &MCPProbe{Tools: []string{}}
	started := time.Now()
	err := p.inScratch(p.ground().Runtime, func(dir string) error { return p.shake(ctx, dir, probe) })
	if err != nil {
		probe.Passed = false
		f := found(groupMCP, "handshake", Failed, fmt.Errorf("`%s mcp`: %w", p.Binary, err), "build codex-mmo again; if that does not help, report it")
		return outcome{findings: []Finding{f}, mcp: probe}
	}
	reason := fmt.Sprintf("`codex-mmo mcp` speaks MCP %s and lists %d tools, in %d ms", mcpProtocol, len(probe.Tools), time.Since(started).Milliseconds())
	return outcome{findings: []Finding{finding(groupMCP, "handshake", OK, reason)}, mcp: probe}
}

// shake serves a control socket in dir for the time of the talk.
func (p *patient) shake(ctx context.Context, dir string, probe *MCPProbe) (err error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	token, hash := access.NewToken(rand.Reader)
	supervisor := &standIn{tokenHash: hash}
	socket := filepath.Join(dir, "control.sock")
	stop, err := supervisor.serve(socket, p.Build)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	toServer, fromUs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = fromUs.Close() }()
	toUs, fromServer, err := os.Pipe()
	if err != nil {
		_ = toServer.Close()
		return err
	}
	defer func() { _ = toUs.Close() }()
	errorsPath := filepath.Join(dir, "stderr")
	child, err := process.Start(process.Spec{
		Path: p.Binary, Args: []string{"mcp"}, Stdin: toServer, Stdout: fromServer, StderrPath: errorsPath,
		Env: []string{
			"PATH=" + p.Getenv("PATH"), "LANG=C.UTF-8",
			"MMO_ROOT_SESSION_ID=" + probeID, "MMO_RUN_ID=" + probeID, "MMO_CALLER_AGENT=" + probeID,
			"MMO_CALLER_TOKEN=" + token, "MMO_CONTROL_SOCKET=" + socket,
		},
	})
	_ = toServer.Close() // the server has its own
	_ = fromServer.Close()
	if err != nil {
		return err
	}
	// What waits on the pipes gives up with the context.
	defer context.AfterFunc(ctx, func() {
		now := time.Now()
		_ = toUs.SetReadDeadline(now)
		_ = fromUs.SetWriteDeadline(now)
	})()
	talk := &talk{in: bufio.NewReader(toUs), out: fromUs}
	err = talk.twoPhases(probe, p.Build)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err = errors.Join(err, end(ctx, child)); err != nil {
		if text := strings.TrimSpace(readSome(errorsPath)); text != "" {
			err = fmt.Errorf("%w; it said: %s", err, text)
		}
	}
	return err
}

// talk is an MCP client's side of the pipes.
type talk struct {
	in  *bufio.Reader
	out *os.File
	id  int
}

// twoPhases shakes hands and lists the tools.
func (t *talk) twoPhases(probe *MCPProbe, build string) error {
	var hello struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	whole, err := t.call("initialize", map[string]any{
		"protocolVersion": mcpProtocol, "capabilities": struct{}{},
		"clientInfo": map[string]string{"name": "codex-mmo doctor", "version": build},
	}, &hello)
	probe.Initialize = whole
	if err != nil {
		return err
	}
	if hello.ProtocolVersion != mcpProtocol {
		return fmt.Errorf("it speaks MCP %q instead of %s", hello.ProtocolVersion, mcpProtocol)
	}
	if err := t.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return err
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if _, err := t.call("tools/list", struct{}{}, &list); err != nil {
		return err
	}
	for _, tool := range list.Tools {
		probe.Tools = append(probe.Tools, tool.Name)
	}
	if !slices.Equal(probe.Tools, probeTools) {
		return fmt.Errorf("it lists the tools %q instead of %q", probe.Tools, probeTools)
	}
	probe.Passed = true
	return nil
}

// call sends a request and decodes the result of its answer, which it returns
// whole. Other messages are passed over.
func (t *talk) call(method string, params, result any) (json.RawMessage, error) {
	t.id++
	request := map[string]any{"jsonrpc": "2.0", "id": t.id, "method": method, "params": params}
	if err := t.send(request); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for {
		line, err := t.line()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var answer struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		loose := &strictjson.Options{AllowUnknown: true}
		if err := strictjson.Unmarshal(line, &answer, loose); err != nil {
			return nil, fmt.Errorf("%s: it answered %.200q: %w", method, line, err)
		}
		if string(answer.ID) != fmt.Sprint(t.id) {
			continue
		}
		if answer.Error != nil {
			return line, fmt.Errorf("%s was refused: %s", method, answer.Error)
		}
		if err := strictjson.Unmarshal(answer.Result, result, loose); err != nil {
			return line, fmt.Errorf("%s: its result is no good: %w", method, err)
		}
		return line, nil
	}
}

func (t *talk) send(v any) error {
	line, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = t.out.Write(append(line, '\n'))
	return err
}

// line reads one line of at most maxSaid bytes.
func (t *talk) line() ([]byte, error) {
	var line []byte
	for {
		part, err := t.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxSaid:
			return nil, fmt.Errorf("it answered with more than %d bytes", maxSaid)
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("no answer: %w", err)
		}
	}
}

// standIn answers in the place of a supervisor: who serves, and what the
// caller is. Nothing else is asked for by a client that only lists its tools;
// the server contains the panic of a verb that is not there.
type standIn struct {
	control.Handler
	tokenHash string
}

// serve answers at the socket until stop is called.
func (s *standIn) serve(socket, build string) (stop func() error, err error) {
	l, err := control.Listen(socket)
	if err != nil {
		return nil, err
	}
	server := control.NewServer(l, s, &control.ServerOptions{Build: build, Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	return func() error {
		// Whoever asked is gone by now, so there is nothing to wait for.
		ctx, cancel := context.WithTimeout(context.Background(), killWait)
		defer cancel()
		return errors.Join(server.Shutdown(ctx), <-served)
	}, nil
}

// Hello tells that the probe serves here.
func (s *standIn) Hello(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error) {
	return &control.HelloResponse{API: control.APIVersion, SessionID: probeID, PID: os.Getpid(), Ready: true}, nil
}

// Caller tells the owner of the token, who is the server that was started,
// what it may do.
func (s *standIn) Caller(_ context.Context, call control.Call, _ control.CallerRequest) (*control.CallerResponse, error) {
	if !access.EqualHash(access.HashToken(call.Token.Reveal()), s.tokenHash) {
		return nil, core.Errorf(core.KindPermission, "process %d is not the MCP server that the doctor started", call.Peer.PID)
	}
	return &control.CallerResponse{
		Role: string(access.RoleRoot), Agent: probeID, SessionID: probeID, Profile: probeID, Tools: probeTools,
		Spawn: []control.SpawnGrant{{Agent: "worker", Description: "None: this is a test.", TaskKinds: []string{}, Modes: []string{"read-only"}}},
	}, nil
}
