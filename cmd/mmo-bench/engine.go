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
	"sync"
	"time"
)

// engineTimeout bounds the start of a bare app-server.
const engineTimeout = 60 * time.Second

// engineStart is what it takes until a bare app-server has opened a thread.
type engineStart struct {
	wall float64 // ms
	cpu  float64 // ms, of the app-server and its MCP server
}

// bareEngines starts app-servers side by side, as many as a batch has workers,
// each on a copy of the home with a required MCP server that does nothing.
func bareEngines(ctx context.Context, env bench, homes []string) ([]engineStart, error) {
	starts, errs := make([]engineStart, len(homes)), make([]error, len(homes))
	var wg sync.WaitGroup
	for i, home := range homes {
		wg.Go(func() { starts[i], errs[i] = bareEngine(ctx, env, home) })
	}
	wg.Wait()
	return starts, errors.Join(errs...)
}

func bareEngine(ctx context.Context, env bench, home string) (started engineStart, err error) {
	copied, err := os.MkdirTemp(filepath.Join(env.dir, "floor"), "home")
	if err != nil {
		return started, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := copyFiles(copied, home); err != nil {
		return started, fmt.Errorf("copying the worker's home: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, env.codex, "app-server",
		"-c", fmt.Sprintf("mcp_servers.mmo_mesh.command=%q", env.self),
		"-c", fmt.Sprintf("mcp_servers.mmo_mesh.args=[%q]", modeEmptyMCP))
	cmd.Env = env.environ("CODEX_HOME=" + copied)
	cmd.Dir = env.workspace()
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return started, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return started, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return started, err
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	if err := openThread(bufio.NewReader(out), in, env.workspace()); err != nil {
		return started, fmt.Errorf("bare app-server: %w", err)
	}
	started.wall = milliseconds(time.Since(start))
	started.cpu, err = cpuOf(cmd.Process.Pid)
	return started, err
}

// copyFiles copies what was generated into a home, and not what Codex has made
// in it since.
func copyFiles(to, from string) error {
	for _, name := range []string{"config.toml", "AGENTS.md"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openThread does what the host does up to an open thread.
func openThread(out *bufio.Reader, in io.Writer, cwd string) error {
	thread, err := json.Marshal(map[string]any{"cwd": cwd, "approvalPolicy": "never", "permissions": "mmo-ro"})
	if err != nil {
		return err
	}
	for id, request := range []string{
		`{"id":0,"method":"initialize","params":{"clientInfo":{"name":"mmo-bench","version":"1"},"capabilities":{"experimentalApi":true}}}` +
			"\n" + `{"method":"initialized"}`,
		`{"id":1,"method":"thread/start","params":` + string(thread) + `}`,
	} {
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			return err
		}
		if err := answer(out, id); err != nil {
			return err
		}
	}
	return nil
}
