package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// way is one way from Codex to a model, and what was measured on it.
type way struct {
	name string
	url  string // with the API's version

	first  []float64 // ms from the request to the first piece of the answer
	total  []float64 // ms to the end
	events []float64 // ms from the provider's writing of a piece to its reading
}

// requestTimeout bounds one request.
const requestTimeout = 2 * time.Minute

// client has a connection for each request, as Codex has on a gateway.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request asks a model once and notes the times.
func (w *way) request(ctx context.Context, model string) error {
	start := time.Now()
	var first time.Duration
	err := w.read(ctx, model, func(string) {
		if first == 0 {
			first = time.Since(start)
		}
	})
	if err != nil {
		return err
	}
	w.first, w.total = append(w.first, milliseconds(first)), append(w.total, milliseconds(time.Since(start)))
	return nil
}

// paced asks for pieces that bear their time.
func (w *way) paced(ctx context.Context) error {
	return w.read(ctx, modelPaced, func(delta string) {
		if sent, err := strconv.ParseInt(strings.TrimPrefix(delta, "t"), 10, 64); err == nil {
			w.events = append(w.events, milliseconds(time.Duration(time.Now().UnixNano()-sent)))
		}
	})
}

// read asks once and calls use with each piece of the answer.
func (w *way) read(ctx context.Context, model string, use func(delta string)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/responses", bytes.NewReader(codexBody(model)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+benchBearer)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // the status says enough
		return fmt.Errorf("HTTP %d: %s", response.StatusCode, body)
	}
	completed, pieces := false, 0
	lines := bufio.NewReaderSize(response.Body, 128<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			var event struct{ Type, Delta string }
			if json.Unmarshal(data, &event) == nil && event.Type == "response.output_text.delta" {
				pieces++
				use(event.Delta)
			}
			completed = completed || event.Type == "response.completed"
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if !completed || pieces == 0 {
		return fmt.Errorf("the answer has %d pieces and completed is %v", pieces, completed)
	}
	return nil
}

// codexBody is a request of the size of Codex's first: 20 KB of instructions and
// as much of tools, in namespaces too.
func codexBody(model string) []byte {
	type object = map[string]any
	schema := object{"type": "object", "additionalProperties": false, "required": []string{"one"}, "properties": object{
		"one": object{"type": "string", "description": strings.Repeat("what it is for ", 16)},
		"two": object{"type": "integer", "description": strings.Repeat("how many of them ", 12)},
	}}
	tool := func(name string) object {
		return object{"type": "function", "name": name, "strict": false, "description": strings.Repeat("does a thing ", 16), "parameters": schema}
	}
	var tools, members []object
	for i := range 14 {
		tools = append(tools, tool(fmt.Sprintf("tool_%d", i)))
		members = append(members, tool(fmt.Sprintf("member_%d", i)))
	}
	tools = append(tools, object{"type": "namespace", "name": "mcp__probe", "tools": members}, object{"type": "web_search"})
	text := func(role, text string) object {
		return object{"type": "message", "role": role, "content": []object{{"type": "input_text", "text": text}}}
	}
	body, err := json.Marshal(object{
		"model": model, "stream": true, "store": false, "tool_choice": "auto", "parallel_tool_calls": true, "tools": tools,
		"include": []string{"reasoning.encrypted_content"}, "prompt_cache_key": "bench",
		"input": []object{text("developer", strings.Repeat("You are a coding agent. ", 850)), text("user", "go")},
	})
	if err != nil {
		panic(err) // our own value
	}
	return body
}

// serverProcess is this program in a mode that serves HTTP.
type serverProcess struct {
	url  string // with the API's version
	pid  int
	stop func() error
}

// startServer runs this program in a mode and waits until it serves.
func startServer(ctx context.Context, env bench, mode, argument string) (*serverProcess, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, env.self, mode, argument)
	cmd.Stderr, cmd.Env = os.Stderr, env.environ()
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	stop := func() error {
		cancel()
		_ = cmd.Wait() // it was killed
		return nil
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", mode, err), stop())
	}
	return &serverProcess{url: strings.TrimSpace(url), pid: cmd.Process.Pid, stop: stop}, nil
}

// announce listens and tells the starter where.
func announce(address string, serve func(net.Listener) error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/v1\n", listener.Addr())
	return serve(listener)
}
