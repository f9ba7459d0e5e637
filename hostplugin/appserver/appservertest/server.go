// Package appservertest is an app-server for tests: a websocket peer on a unix
// socket whose frames, answers and breaches of the protocol are scripted. It
// stands in for what the real app-server can't be brought to send.
//
// It builds frames by hand, so that nothing corrects a wrong one. Its functions
// fail the test they are given; every wait is bounded.
package appservertest

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// wait bounds everything that a test waits for.
const wait = 10 * time.Second

// Server listens for clients.
type Server struct {
	t        testing.TB
	listener *net.UnixListener
}

// Listen makes the socket at path. It is removed when the test ends.
func Listen(t testing.TB, path string) *Server {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatalf("appservertest: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return &Server{t: t, listener: listener}
}

// Answer is the head of the handshake's answer; the zero value is a correct
// one.
type Answer struct {
	Connection string   // value of the Connection header; empty: Upgrade
	Extra      []string // further header lines, e.g. "Sec-WebSocket-Extensions: x"
}

// Accept takes the next client and answers its handshake.
func (s *Server) Accept(answer Answer) *Conn {
	s.t.Helper()
	if err := s.listener.SetDeadline(time.Now().Add(wait)); err != nil {
		s.t.Fatalf("appservertest: %v", err)
	}
	raw, err := s.listener.Accept()
	if err != nil {
		s.t.Fatalf("appservertest: waiting for a client: %v", err)
	}
	s.t.Cleanup(func() { _ = raw.Close() })
	c := &Conn{t: s.t, raw: raw, in: bufio.NewReader(raw)}
	c.deadline()
	request, err := http.ReadRequest(c.in)
	if err != nil {
		s.t.Fatalf("appservertest: reading the handshake: %v", err)
	}
	c.Request = request
	c.Write([]byte(answer.head(request.Header.Get("Sec-Websocket-Key"))))
	return c
}

func (a Answer) head(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455 section 1.3
	connection := a.Connection
	if connection == "" {
		connection = "Upgrade"
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: " + connection +
		"\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	for _, line := range a.Extra {
		head += line + "\r\n"
	}
	return head + "\r\n"
}

// Conn is one client's connection.
type Conn struct {
	Request *http.Request // the client's handshake

	t   testing.TB
	raw net.Conn
	in  *bufio.Reader
}

// Frame is a frame of the client, unmasked.
type Frame struct {
	Final   bool
	Opcode  byte
	Masked  bool
	Payload []byte
}

// Opcodes of RFC 6455 section 5.2 that clients send.
const (
	OpText  = 0x1
	OpClose = 0x8
	OpPong  = 0xA
)

// Write sends bytes as they are.
func (c *Conn) Write(raw []byte) {
	c.t.Helper()
	if _, err := c.raw.Write(raw); err != nil {
		c.t.Fatalf("appservertest: writing: %v", err)
	}
}

// Text sends a whole text message.
func (c *Conn) Text(payload string) {
	c.t.Helper()
	c.Write(TextFrame(payload))
}

// TextFrame builds a correct text frame of a server.
func TextFrame(payload string) []byte {
	n := len(payload)
	frame := []byte{0x80 | OpText}
	switch {
	case n < 126:
		frame = append(frame, byte(n))
	case n < 1<<16:
		frame = append(frame, 126, byte(n>>8), byte(n))
	default:
		frame = append(frame, 127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(frame, payload...)
}

// Frame reads the client's next frame.
func (c *Conn) Frame() Frame {
	c.t.Helper()
	f, err := c.frame()
	if err != nil {
		c.t.Fatalf("appservertest: reading a frame: %v", err)
	}
	return f
}

// Closed waits for the end of the connection, reading what comes before.
func (c *Conn) Closed() {
	c.t.Helper()
	for {
		switch _, err := c.frame(); {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
			return
		default:
			c.t.Fatalf("appservertest: waiting for the client to close: %v", err)
		}
	}
}

// Close drops the connection without a close frame, as a killed server does.
func (c *Conn) Close() { _ = c.raw.Close() }

func (c *Conn) deadline() {
	if err := c.raw.SetDeadline(time.Now().Add(wait)); err != nil {
		c.t.Fatalf("appservertest: %v", err)
	}
}

func (c *Conn) frame() (Frame, error) {
	_ = c.raw.SetDeadline(time.Now().Add(wait)) // a closed connection fails below
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Final: head[0]&0x80 != 0, Opcode: head[0] & 0x0f, Masked: head[1]&0x80 != 0}
	length := uint64(head[1] & 0x7f)
	wide := map[uint64]int{126: 2, 127: 8}[length]
	if wide > 0 {
		length = 0
		for range wide {
			b, err := c.in.ReadByte()
			if err != nil {
				return Frame{}, err
			}
			length = length<<8 | uint64(b)
		}
	}
	if length > 64<<20 {
		return Frame{}, fmt.Errorf("frame of %d bytes", length)
	}
	var mask [4]byte
	if f.Masked {
		if _, err := io.ReadFull(c.in, mask[:]); err != nil {
			return Frame{}, err
		}
	}
	f.Payload = make([]byte, length)
	if _, err := io.ReadFull(c.in, f.Payload); err != nil {
		return Frame{}, err
	}
	for i := range f.Payload {
		f.Payload[i] ^= mask[i%4]
	}
	return f, nil
}
