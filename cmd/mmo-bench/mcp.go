package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// oneCaller is a control API that knows one caller: all that an MCP process
// asks for before it is ready. Any other verb would be a nil call.
type oneCaller struct{ control.Handler }

func (oneCaller) Caller(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
	return &control.CallerResponse{
		Role: "root", Agent: "lead", SessionID: "bench", Profile: "bench",
		Tools: []string{"agent_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel"},
		Spawn: []control.SpawnGrant{{Agent: "reader", Description: "reads", TaskKinds: []string{"read"}, Modes: []string{"read-only"}}},
	}, nil
}

// measureMCP compares our MCP process with an empty server: from exec until
// its tools are listed.
func measureMCP(ctx context.Context, env bench, n int) ([]figure, error) {
	socket := filepath.Join(env.dir, "c")
	listener, err := control.Listen(socket)
	if err != nil {
		return nil, err
	}
	server := control.NewServer(listener, oneCaller{}, nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()

	f := figure{what: "MCP process ready", floor: "empty mcp-go server", unit: "ms", at: 0.5, atMost: 1.6}
	err = alternate(n, func() error {
		took, err := handshake(ctx, exec.Command(env.binary, "mcp"), env.environ(
			"MMO_CONTROL_SOCKET="+socket, "MMO_ROOT_SESSION_ID=bench", "MMO_RUN_ID=bench",
			"MMO_CALLER_AGENT=lead", "MMO_CALLER_TOKEN=bench"))
		f.values = append(f.values, milliseconds(took))
		return err
	}, func() error {
		took, err := handshake(ctx, exec.Command(env.self, modeEmptyMCP), env.environ())
		f.floors = append(f.floors, milliseconds(took))
		return err
	})
	return []figure{f}, errors.Join(err, server.Shutdown(ctx), <-served)
}

// handshakeTimeout bounds one start of an MCP server.
const handshakeTimeout = 30 * time.Second

// handshake starts an MCP server and measures until it has listed its tools.
func handshake(ctx context.Context, cmd *exec.Cmd, environ []string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	cmd.Env, cmd.Stderr = environ, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	kill := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer kill()
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	lines := bufio.NewReader(out)
	for id, request := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"mmo-bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	} {
		if id == 1 {
			if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
				return 0, err
			}
		}
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			return 0, err
		}
		if err := answer(lines, id); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// answer reads lines up to the answer with the id, and refuses an error.
func answer(lines *bufio.Reader, id int) error {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the server ended before its answer %d: %w", id, err)
		}
		var message struct {
			ID    *int            `json:"id"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(line, &message); err != nil {
			return err
		}
		switch {
		case message.ID == nil || *message.ID != id:
		case message.Error != nil:
			return fmt.Errorf("the server refused request %d: %s", id, message.Error)
		default:
			return nil
		}
	}
}
