package appserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// MaxFrameBytes is the longest message in either direction. App-server 0.149.0
// took 10 MiB and dropped the connection at 17 MiB; 0.171.0 announces 16 MiB.
const MaxFrameBytes = 16 << 20

const (
	// writeWait bounds one write: a stopped app-server fills the socket's
	// buffer, and a writer holds the write lock.
	writeWait = 10 * time.Second
	closeWait = time.Second
)

// transport carries text messages. Reads have one caller; writes any number.
type transport struct {
	ws   *websocket.Conn
	mu   sync.Mutex // orders recording and writing
	once sync.Once
}

// dialTransport connects to the socket at path once and upgrades.
func dialTransport(ctx context.Context, path string) (*transport, error) {
	var guard *guardConn
	var stop func() bool
	dialer := websocket.Dialer{
		// 0.149.0 closes the socket without an answer when the client offers
		// permessage-deflate.
		EnableCompression: false,
		NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "unix", path)
			if err != nil {
				return nil, err
			}
			guard = &guardConn{Conn: conn}
			// The library heeds a deadline during the handshake, not a cancel.
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return guard, nil
		},
	}
	ws, resp, err := dialer.DialContext(ctx, "ws://localhost/", nil)
	if stop != nil && !stop() && err == nil {
		_ = ws.Close()
		return nil, context.Cause(ctx)
	}
	if name := unrequested(resp); name != "" {
		if ws != nil {
			_ = ws.Close()
		}
		return nil, &ProtocolError{Rule: "the handshake answer has an unrequested " + name + " header", Err: err}
	}
	if err != nil {
		return nil, handshakeError(ctx, path, guard, err)
	}
	ws.SetReadLimit(MaxFrameBytes)
	return &transport{ws: ws}, nil
}

// unrequested names a header of the answer that nothing of ours asked for; ""
// when there is none, or no answer.
func unrequested(resp *http.Response) string {
	if resp == nil {
		return ""
	}
	for _, name := range []string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol"} {
		if len(resp.Header.Values(name)) > 0 {
			return name
		}
	}
	return ""
}

// handshakeError tells why no connection came about.
func handshakeError(ctx context.Context, path string, guard *guardConn, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("connecting to %s: %w", path, cause)
	}
	if guard != nil && guard.err != nil {
		return guard.err
	}
	if errors.Is(err, websocket.ErrBadHandshake) {
		return &ProtocolError{Rule: "the handshake answer is no upgrade to a websocket", Err: err}
	}
	return fmt.Errorf("connecting to %s: %w", path, err)
}

// read returns the next text message. The library answers pings, joins
// fragments and refuses masked frames, reserved bits and fragmented control
// frames. Any error closes the transport.
func (t *transport) read() ([]byte, error) {
	kind, data, err := t.ws.ReadMessage()
	switch {
	case err != nil:
		err = readError(err)
	case kind != websocket.TextMessage:
		err = &ProtocolError{Rule: "a message is binary"}
	case !utf8.Valid(data):
		err = &ProtocolError{Rule: "a text message is not valid UTF-8"}
	}
	if err != nil {
		t.abort()
		return nil, err
	}
	return data, nil
}

// readError tells what the peer did wrong from what happened to the socket.
func readError(err error) error {
	var closed *websocket.CloseError
	var network net.Error
	var protocol *ProtocolError
	switch {
	case errors.As(err, &closed), errors.As(err, &network), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("reading from the app-server: %w", err)
	case errors.As(err, &protocol):
		return protocol
	}
	return &ProtocolError{Rule: "a frame is malformed", Err: err}
}

// write records the frame and sends it, both under the write lock, so that
// the order of the records is the order on the wire. sent tells whether any of
// it may have reached the peer.
func (t *transport) write(frame []byte, record func([]byte) error) (sent bool, err error) {
	if len(frame) > MaxFrameBytes {
		return false, fmt.Errorf("frame of %d bytes is longer than 16 MiB", len(frame))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if record != nil {
		if err := record(frame); err != nil {
			return false, err
		}
	}
	if err := t.ws.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return false, err
	}
	if err := t.ws.WriteMessage(websocket.TextMessage, frame); err != nil {
		t.abort() // a frame cut short can't be continued
		return true, fmt.Errorf("writing to the app-server: %w", err)
	}
	return true, nil
}

// close says goodbye with a normal close frame. It does not wait for the
// peer's: app-server never sends one.
func (t *transport) close() {
	t.once.Do(func() {
		frame := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = t.ws.WriteControl(websocket.CloseMessage, frame, time.Now().Add(closeWait))
		_ = t.ws.Close()
	})
}

// abort drops the connection without a word.
func (t *transport) abort() {
	t.once.Do(func() { _ = t.ws.Close() })
}
