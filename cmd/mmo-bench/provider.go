package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// The models of the bench's provider.
const (
	modelShort = "short" // deltas deltas, as fast as they go
	modelPaced = "paced" // the same, a millisecond apart, each with its time
	modelBulk  = "bulk"  // bulkBytes of text
)

const (
	deltas    = 50
	bulkBytes = 1 << 20 // of one answer; no model says more
	bulkTimes = 100
)

// serveProvider is the provider that all are measured with: it speaks Responses
// for the direct way, and Chat Completions for gateways.
func serveProvider(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		playDeltas(w, r, `data: {"type":"response.output_text.delta","delta":%q}`+"\n\n", "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n")
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		playDeltas(w, r, `data: {"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n",
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n")
	})
	return http.Serve(listener, mux)
}

// playDeltas answers as the request's model says.
func playDeltas(w http.ResponseWriter, r *http.Request, form, end string) {
	var request struct{ Model string }
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	switch request.Model {
	case modelBulk:
		piece := strings.Repeat("x", 32<<10)
		for sent := 0; sent < bulkBytes; sent += len(piece) {
			if _, err := fmt.Fprintf(w, form, piece); err != nil {
				return
			}
		}
	default:
		for range deltas {
			if request.Model == modelPaced {
				time.Sleep(time.Millisecond)
			}
			if _, err := fmt.Fprintf(w, form, fmt.Sprintf("t%d", time.Now().UnixNano())); err != nil {
				return
			}
			if flush() != nil {
				return
			}
		}
	}
	_, _ = io.WriteString(w, end) // a client that left needs no answer
}
