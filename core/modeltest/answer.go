package modeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// encoder writes one answer on one wire.
type encoder interface {
	begin() error
	text(piece string) error
	think(piece string) error
	call(p part) error
	fail(e *ProviderError) error
	finish() error
}

// errCut ends an answer whose connection the script breaks.
var errCut = errors.New("cut by the script")

// answer plays a reply to the client and records how it ended.
func (e *Engine) answer(w http.ResponseWriter, ctx context.Context, spoken wire, record *Request, r *reply) {
	err := e.play(w, ctx, spoken, record, r)
	state := StateDone
	if err != nil && !errors.Is(err, errCut) {
		state = StateGone
	}
	e.update(record, func(r *Request) { r.State, r.Gate = state, "" })
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler) // the way to break a connection without an end of the body
	}
}

func (e *Engine) play(w http.ResponseWriter, ctx context.Context, spoken wire, record *Request, r *reply) error {
	s := &stage{w: w, ctx: ctx, engine: e, record: record, reply: r}
	s.enc = spoken.encoder(&cutWriter{w: w, left: r.cut.bytes, limited: r.cut.bytes > 0}, r)
	for _, p := range r.parts {
		if err := s.part(p); err != nil {
			return err
		}
	}
	if r.failure != nil {
		writeError(w, spoken, r.failure)
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	return s.enc.finish()
}

// stage is one answer while it is played. The stream begins with the first
// output, so that a delay can come before an HTTP error.
type stage struct {
	w      http.ResponseWriter
	ctx    context.Context // of the request
	engine *Engine
	record *Request
	reply  *reply
	enc    encoder
	begun  bool
	pieces int
}

func (s *stage) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.WriteHeader(http.StatusOK)
	return s.enc.begin()
}

func (s *stage) part(p part) error {
	switch p.kind {
	case actDelay:
		return pause(s.ctx, p.delay)
	case actHold:
		return s.engine.hold(s.ctx, s.record, p.name)
	}
	if err := s.begin(); err != nil {
		return err
	}
	switch p.kind {
	case actSay:
		return s.stream(p.text, s.enc.text)
	case actThink:
		return s.stream(p.text, s.enc.think)
	case actFail:
		return s.enc.fail(p.failure)
	case actCut:
		return errCut
	}
	if err := s.piece(); err != nil {
		return err
	}
	return s.enc.call(p)
}

// stream sends a text in small pieces.
func (s *stage) stream(text string, send func(string) error) error {
	for piece := range pieces(text) {
		if err := s.piece(); err != nil {
			return err
		}
		if err := send(piece); err != nil {
			return err
		}
	}
	return nil
}

// piece counts streamed pieces against the script's cut.
func (s *stage) piece() error {
	if s.reply.cut.deltas > 0 && s.pieces == s.reply.cut.deltas {
		return errCut
	}
	s.pieces++
	return s.ctx.Err()
}

// pieces yields a text word by word, each with the space that follows it.
func pieces(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			end := strings.IndexAny(text, " \n")
			if end < 0 {
				end = len(text) - 1
			}
			if !yield(text[:end+1]) {
				return
			}
			text = text[end+1:]
		}
	}
}

// cutWriter flushes every write, and breaks off after so many bytes.
type cutWriter struct {
	w       http.ResponseWriter
	left    int
	limited bool
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.limited && len(p) >= c.left {
		n, err := c.w.Write(p[:c.left])
		c.left = 0
		if err == nil {
			err = errors.Join(errCut, http.NewResponseController(c.w).Flush())
		}
		return n, err
	}
	c.left -= len(p)
	n, err := c.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, http.NewResponseController(c.w).Flush()
}

// writeError answers with an error body in the wire's form.
func writeError(w http.ResponseWriter, spoken wire, e *ProviderError) {
	w.Header().Set("Content-Type", "application/json")
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(mustJSON(spoken.errorBody(e))) // a client that left needs no answer
}

func (chatWire) errorBody(e *ProviderError) any      { return openaiErrorBody(e) }
func (responsesWire) errorBody(e *ProviderError) any { return openaiErrorBody(e) }

func openaiErrorBody(e *ProviderError) members {
	body := members{"type": e.Type, "message": e.Message, "code": nil}
	if e.Code != "" {
		body["code"] = e.Code
	}
	if e.ResetsAt != "" {
		body["resets_at"] = e.ResetsAt
	}
	return members{"error": body}
}

// writeEvent writes one server-sent event in one write.
func writeEvent(w io.Writer, event string, value any) error {
	var name string
	if event != "" {
		name = "event: " + event + "\n"
	}
	_, err := fmt.Fprintf(w, "%sdata: %s\n\n", name, mustJSON(value))
	return err
}
