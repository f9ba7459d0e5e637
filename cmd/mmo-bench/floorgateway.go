package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// serveFloor is the least that a gateway can do with the standard library: it
// reads the request, makes a chat request of it, and translates each delta. It
// checks nothing and keeps nothing.
func serveFloor(listener net.Listener, upstream string) error {
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := floorExchange(w, r, upstream); err != nil {
			fmt.Fprintf(w, "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":%q}}}\n\n", err)
		}
	}))
}

func floorExchange(w http.ResponseWriter, r *http.Request, upstream string) error {
	body, err := floorRequest(r)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, upstream+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "close")
	fmt.Fprint(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")
	flush := http.NewResponseController(w).Flush
	if err := flush(); err != nil {
		return err
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			break
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return err
		}
		for _, c := range chunk.Choices {
			event, err := json.Marshal(map[string]any{"type": "response.output_text.delta", "delta": c.Delta.Content})
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n")
	return lines.Err()
}

// floorRequest makes the chat request: messages and tools, flattened.
func floorRequest(r *http.Request) ([]byte, error) {
	var in struct {
		Model string
		Input []struct {
			Role    string
			Content []struct{ Text string }
		}
		Tools []map[string]any
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	type object = map[string]any
	var messages, tools []object
	for _, item := range in.Input {
		var text []string
		for _, part := range item.Content {
			text = append(text, part.Text)
		}
		messages = append(messages, object{"role": item.Role, "content": strings.Join(text, "\n")})
	}
	for _, tool := range in.Tools {
		tools = append(tools, object{"type": "function", "function": tool})
	}
	return json.Marshal(object{"model": in.Model, "stream": true, "messages": messages, "tools": tools})
}
