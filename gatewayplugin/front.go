package gatewayplugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// maxBody bounds a request's body, in bytes: a conversation with many images
// stays below.
const maxBody = 64 << 20

// maxAnnounced bounds what is made ready for a body before it comes, in bytes.
const maxAnnounced = 1 << 20

// handler serves the HTTP side. Before anything else it refuses what a browser
// or a rebound host name sends: Codex sends neither Origin nor another Host.
func (g *Gateway) handler(port string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", g.serveResponses)
	mux.HandleFunc("GET /v1/models", g.serveModels)
	mux.HandleFunc("GET /health", g.serveHealth)
	mux.HandleFunc("GET /metrics", g.serveMetrics)
	hosts := set([]string{"127.0.0.1:" + port, "localhost:" + port})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// For bodies that never come, also those that nobody reads.
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.opts.BodyWithin)); err != nil {
			refuse(w, http.StatusInternalServerError, "the connection has no deadline")
			return
		}
		switch {
		case len(r.Header.Values("Origin")) > 0:
			refuse(w, http.StatusForbidden, "requests from web pages are refused")
		case !hosts[r.Host]:
			refuse(w, http.StatusForbidden, "the Host header names another server")
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// refuse answers with a bare sentence, which Codex shows word for word.
func refuse(w http.ResponseWriter, code int, sentence string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, sentence) // a client that left needs no answer
}

// bearer returns the token that a request bears, or nil.
func (g *Gateway) bearer(r *http.Request) *token {
	presented, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil
	}
	hash := sha256.Sum256([]byte(presented))
	for {
		g.mu.Lock()
		tok, armed, until := g.lookupLocked(hash), g.armed, g.started.armUntil
		g.mu.Unlock()
		if tok != nil {
			return tok
		}
		wait, cancel := context.WithDeadline(r.Context(), until)
		select {
		case <-armed:
			cancel()
		case <-wait.Done():
			cancel()
			return nil
		}
	}
}

// lookupLocked compares with every issued hash in constant time.
func (g *Gateway) lookupLocked(hash [32]byte) *token {
	var found *token
	for _, tok := range g.tokens {
		if subtle.ConstantTimeCompare(hash[:], tok.hash[:]) == 1 {
			found = tok
		}
	}
	if found != nil && !found.expires.IsZero() && !g.opts.Now().Before(found.expires) {
		return nil
	}
	return found
}

func (g *Gateway) authorize(w http.ResponseWriter, r *http.Request) *token {
	tok := g.bearer(r)
	if tok == nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "the bearer is missing, unknown, revoked or expired")
	}
	return tok
}

func (g *Gateway) serveModels(w http.ResponseWriter, r *http.Request) {
	tok := g.authorize(w, r)
	if tok == nil {
		return
	}
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}{Object: "list", Data: []entry{}}
	for _, route := range tok.tenant.snapshot() {
		for _, m := range route.models {
			if tok.tenant.find(tok, m.GetKey()) == route {
				list.Data = append(list.Data, entry{ID: m.GetKey(), Object: "model", OwnedBy: route.id})
			}
		}
	}
	writeJSON(w, list)
}

func (g *Gateway) serveHealth(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	inFlight, tenants := g.inFlight, len(g.tenants)
	g.mu.Unlock()
	writeJSON(w, struct {
		Status   string `json:"status"`
		Tenants  int    `json:"tenants"`
		InFlight int    `json:"in_flight"`
	}{"ok", tenants, inFlight})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}

func (g *Gateway) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	inFlight := g.inFlight
	g.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	g.metrics.write(w, inFlight)
}

// readBody reads a body of about the announced size, which is -1 when none was.
func readBody(body io.Reader, announced int64) ([]byte, error) {
	var buf bytes.Buffer
	if announced > 0 && announced <= maxAnnounced {
		buf.Grow(int(announced) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(body)
	return buf.Bytes(), err
}

// serveResponses answers one request of Codex.
func (g *Gateway) serveResponses(w http.ResponseWriter, r *http.Request) {
	tok := g.authorize(w, r)
	if tok == nil {
		return
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		refuse(w, http.StatusUnsupportedMediaType, "the request's body must not be compressed")
		return
	}
	body, err := readBody(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			refuse(w, http.StatusBadRequest, "the request is larger than the gateway takes, compact the conversation")
		}
		return // else the client has left, or was too slow
	}
	// From here on a read only waits for the client to leave.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return // the connection has ended
	}
	req, err := responses.Decode(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "the request is no Responses request: "+err.Error())
		return
	}
	if !req.Stream {
		refuse(w, http.StatusBadRequest, "the gateway only streams, send \"stream\": true")
		return
	}
	route := tok.tenant.find(tok, req.Model)
	if route == nil {
		refuse(w, http.StatusBadRequest, "the model "+req.Model+" is not on the routes of this agent")
		return
	}
	if !g.enterRequest() {
		return // the connection is about to end
	}
	defer g.leaveRequest()
	if !tok.tenant.begin() {
		refuse(w, http.StatusUnauthorized, errReleased.Error())
		return
	}
	defer tok.tenant.requests.Done()
	x := &exchange{
		g: g, w: w, client: r, token: tok, route: route, request: req, body: body,
		id: g.requestID(), began: time.Now(),
	}
	x.run(r.Context())
}
