package appserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// defaultInFlight keeps far from the server's queue: a burst of 6,000 requests
// saw its first refusal near request 130 (0.149.0).
const defaultInFlight = 64

// Options are what a Client is made with. The zero value of each field is
// usable, and so is a nil *Options.
type Options struct {
	// Sent sees every frame under the write lock, before it goes out. When it
	// fails, the frame is not sent.
	Sent func(frame []byte) error
	// Received sees every frame in wire order on the reader's goroutine,
	// before a waiting call is woken by it. It must not call the client.
	Received func(Message)
	// InFlight bounds unanswered requests, 1..99; 0 means 64.
	InFlight int
	// Jitter returns the random factor on a retry's delay; nil means uniform
	// in [0.5, 1.5).
	Jitter func() float64
	// After is the clock of the retries; nil means time.After.
	After func(time.Duration) <-chan time.Time
}

// Message is one frame of the server.
type Message struct {
	Raw    []byte          // the frame, unchanged
	ID     json.RawMessage // JSON text of the id; nil in notifications
	Method string          // empty in answers
	Params json.RawMessage // nil when absent
	Result json.RawMessage // of an answer; nil when absent
	Error  *RPCError       // of an answer; nil when absent
	// Answers is the method of the request that this answers; empty when the
	// caller has given up and in all other frames.
	Answers string
}

// IsRequest tells whether the server waits for an answer to m.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification tells whether m is an event.
func (m Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// Client is a connection to one app-server. Its methods may be called from any
// goroutine. It owns one goroutine, the reader, which Close waits for.
type Client struct {
	opts Options
	t    *transport
	slot chan struct{} // one element per unanswered request
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	nextID  int64
	waiting map[int64]pending // request id -> its caller
	closing bool
	err     error // why the connection ended; set before done is closed
}

// pending is a request that waits for its answer.
type pending struct {
	method string
	answer chan Message // capacity 1
}

// Dial connects to the socket at path once and starts to read. Use [Connect]
// for a server that is still starting.
func Dial(ctx context.Context, path string, opts *Options) (*Client, error) {
	t, err := dialTransport(ctx, path)
	if err != nil {
		return nil, err
	}
	c := &Client{t: t, done: make(chan struct{}), waiting: map[int64]pending{}}
	if opts != nil {
		c.opts = *opts
	}
	if c.opts.InFlight < 1 || c.opts.InFlight > 99 {
		c.opts.InFlight = defaultInFlight
	}
	if c.opts.Jitter == nil {
		c.opts.Jitter = func() float64 { return 0.5 + rand.Float64() }
	}
	if c.opts.After == nil {
		c.opts.After = time.After
	}
	c.slot = make(chan struct{}, c.opts.InFlight)
	go c.read()
	return c, nil
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err tells why the connection ended; nil while it stands.
func (c *Client) Err() error {
	select {
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	default:
		return nil
	}
}

// Close sends a normal close frame, drops the connection and waits for the
// reader. Calls that wait return an error that wraps ErrUnanswered.
func (c *Client) Close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.t.close()
	<-c.done
}

// Call sends a request and waits for its answer, for at most ctx. A server that
// says it is overloaded is asked again with a new id after 0.1 s, 0.2 s, 0.4 s
// ... times a random factor, for as long as ctx allows.
//
// The error is an *RPCError when the server refused, or wraps ErrNotSent or
// ErrUnanswered.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := encode(params)
	if err != nil {
		return nil, fmt.Errorf("%w: encoding %s: %w", ErrNotSent, method, err)
	}
	for delay := 100 * time.Millisecond; ; delay *= 2 {
		result, err := c.once(ctx, method, raw)
		var refused *RPCError
		if !errors.As(err, &refused) || !refused.Overloaded() {
			return result, err
		}
		wait := time.Duration(float64(delay) * c.opts.Jitter())
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return nil, err
		}
		select {
		case <-c.opts.After(wait):
		case <-ctx.Done():
			return nil, err
		case <-c.done:
			return nil, err
		}
	}
}

// once sends one request with the next id and waits for its answer.
func (c *Client) once(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, err)
	}
	select {
	case c.slot <- struct{}{}:
		defer func() { <-c.slot }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, context.Cause(ctx))
	case <-c.done:
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, c.Err())
	}
	id, answer := c.register(method)
	defer c.forget(id)
	sent, err := c.t.write(requestFrame(id, method, params), c.opts.Sent)
	if err != nil {
		if sent {
			return nil, fmt.Errorf("%w: %s: %w", ErrUnanswered, method, err)
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, err)
	}
	select {
	case m := <-answer:
		return m.Result, answerError(m)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: %w", ErrUnanswered, method, context.Cause(ctx))
	case <-c.done:
	}
	// The answer may have been the last frame before the end.
	select {
	case m := <-answer:
		return m.Result, answerError(m)
	default:
		return nil, fmt.Errorf("%w: %s: %w", ErrUnanswered, method, c.Err())
	}
}

func answerError(m Message) error {
	if m.Error != nil {
		return m.Error
	}
	return nil
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) error {
	raw, err := encode(params)
	if err != nil {
		return fmt.Errorf("%w: encoding %s: %w", ErrNotSent, method, err)
	}
	return c.send(method, notificationFrame(method, raw))
}

// Reply answers a request of the server. id is the JSON text of the request's
// id, result a JSON value.
func (c *Client) Reply(id, result json.RawMessage) error {
	frame := []byte(`{"id":`)
	frame = append(frame, id...)
	frame = append(frame, `,"result":`...)
	frame = append(frame, result...)
	return c.send("reply", append(frame, '}'))
}

func (c *Client) send(what string, frame []byte) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotSent, what, err)
	}
	sent, err := c.t.write(frame, c.opts.Sent)
	switch {
	case err == nil:
		return nil
	case sent:
		return fmt.Errorf("%w: %s: %w", ErrUnanswered, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrNotSent, what, err)
}

func (c *Client) register(method string) (int64, chan Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextID++
	answer := make(chan Message, 1)
	c.waiting[c.nextID] = pending{method, answer}
	return c.nextID, answer
}

func (c *Client) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// read is the reader: it ends with the connection.
func (c *Client) read() {
	defer close(c.done)
	for {
		raw, err := c.t.read()
		var m Message
		if err == nil {
			m, err = decode(raw)
		}
		if err != nil {
			c.t.abort()
			c.mu.Lock()
			c.err = err
			if c.closing {
				c.err = ErrClosed
			}
			c.mu.Unlock()
			return
		}
		caller := c.caller(&m)
		if c.opts.Received != nil {
			c.opts.Received(m)
		}
		if caller != nil {
			caller <- m
		}
	}
}

// caller returns who waits for m, and notes in m what it answers. Answers to
// calls that were given up, and to ids that were never sent, have no caller.
func (c *Client) caller(m *Message) chan<- Message {
	var id int64
	if m.Method != "" || json.Unmarshal(m.ID, &id) != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.waiting[id]
	delete(c.waiting, id)
	m.Answers = p.method
	return p.answer
}

// decode reads a frame leniently: members and variants that later versions add
// are left alone.
func decode(raw []byte) (Message, error) {
	var wire struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Message{}, &ProtocolError{Rule: "a message is not a JSON-RPC object", Err: err}
	}
	if bytes.Equal(wire.ID, []byte("null")) {
		wire.ID = nil
	}
	return Message{
		Raw: raw, ID: wire.ID, Method: wire.Method,
		Params: wire.Params, Result: wire.Result, Error: wire.Error,
	}, nil
}
