package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// FrameProxy stands between a websocket client and a server on unix sockets.
// It passes everything on unchanged, counts the client's calls, and can hold
// back chosen messages of the server, as if they were lost or late. Its
// methods may be called from any goroutine.
//
//	client ──> proxy ──> server
//	client <── proxy <── server     Withhold holds messages on this way
type FrameProxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup
	withheld chan string // methods, in the order in which they were held

	mu       sync.Mutex
	closed   bool
	hold     []string       // methods to hold back
	requests map[string]int // method -> messages that the client sent
	links    []*link
}

// withheldBuffer is how many withheld messages a test may leave unread.
const withheldBuffer = 1024

// NewFrameProxy listens on the unix socket listen and connects every client
// to the one at target, until the test ends.
func NewFrameProxy(t testing.TB, listen, target string) *FrameProxy {
	t.Helper()
	listener, err := net.Listen("unix", listen)
	if err != nil {
		t.Fatalf("frame proxy: %v", err)
	}
	p := &FrameProxy{
		target:   target,
		listener: listener,
		withheld: make(chan string, withheldBuffer),
		requests: map[string]int{},
	}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Withhold holds back, from now on, the server's messages with these methods.
// Messages held already stay held.
func (p *FrameProxy) Withhold(methods ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = slices.Clone(methods)
}

// Withheld yields the method of each message when it is held back.
func (p *FrameProxy) Withheld() <-chan string { return p.withheld }

// Release sends what was held back to the clients that are still there, in
// its order, and holds back nothing more.
func (p *FrameProxy) Release() {
	p.mu.Lock()
	p.hold = nil
	links := slices.Clone(p.links)
	p.mu.Unlock()
	for _, l := range links {
		l.release()
	}
}

// Requests returns how many messages with the method the clients have sent.
func (p *FrameProxy) Requests(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[method]
}

// Cut closes all connections and forgets what was held back. New clients are
// served.
func (p *FrameProxy) Cut() {
	p.mu.Lock()
	links := p.links
	p.links = nil
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

func (p *FrameProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *FrameProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		server, err := net.Dial("unix", p.target)
		if err != nil {
			client.Close() // the client sees what it would see without us
			continue
		}
		l := &link{proxy: p, client: client, server: server}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			l.close()
			return
		}
		p.links = append(p.links, l)
		p.mu.Unlock()
		p.wg.Go(l.serve)
	}
}

// note counts a message of the client.
func (p *FrameProxy) note(method string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[method]++
}

// holds tells whether a message is to be held back, and whether nothing is
// any more.
func (p *FrameProxy) holds(method string) (held, released bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return method != "" && slices.Contains(p.hold, method), len(p.hold) == 0
}

// link is one client and its connection to the server.
type link struct {
	proxy          *FrameProxy
	client, server net.Conn

	mu   sync.Mutex // orders writes to client; protects held
	held [][]byte
}

// serve carries the handshake, then both directions until one of them ends.
func (l *link) serve() {
	defer l.close()
	fromClient, fromServer := bufio.NewReader(l.client), bufio.NewReader(l.server)
	upgraded, err := l.handshake(fromClient, fromServer)
	if err != nil || !upgraded {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer l.close()
		l.up(&frameReader{in: fromClient})
	})
	l.down(&frameReader{in: fromServer})
	l.close()
	wg.Wait()
}

// handshake passes the upgrade request and its answer on, byte by byte.
func (l *link) handshake(fromClient, fromServer *bufio.Reader) (upgraded bool, err error) {
	request, err := readHead(fromClient)
	if err != nil {
		return false, err
	}
	if _, err := l.server.Write(request); err != nil {
		return false, err
	}
	answer, err := readHead(fromServer)
	if err != nil {
		return false, err
	}
	if _, err := l.client.Write(answer); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return false, fmt.Errorf("reading the server's answer: %w", err)
	}
	return response.StatusCode == http.StatusSwitchingProtocols, nil
}

// maxHead bounds the head of the handshake, in bytes.
const maxHead = 64 << 10

// readHead reads up to the empty line that ends an HTTP head.
func readHead(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for len(head) <= maxHead {
		line, err := in.ReadSlice('\n')
		head = append(head, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if string(line) == "\r\n" {
			return head, nil
		}
	}
	return nil, errors.New("http head is too long")
}

func (l *link) up(in *frameReader) {
	for {
		m, err := in.next()
		if err != nil {
			return
		}
		if method := m.method(); method != "" {
			l.proxy.note(method)
		}
		if _, err := l.server.Write(m.raw); err != nil {
			return
		}
	}
}

func (l *link) down(in *frameReader) {
	for {
		m, err := in.next()
		if err != nil {
			return
		}
		if err := l.deliver(m); err != nil {
			return
		}
	}
}

// deliver passes a message on or holds it back.
func (l *link) deliver(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	method := m.method()
	held, released := l.proxy.holds(method)
	if released {
		l.flushLocked() // Release may not have come to this link yet
	}
	if !held {
		_, err := l.client.Write(m.raw)
		return err
	}
	l.held = append(l.held, m.raw)
	select {
	case l.proxy.withheld <- method:
		return nil
	default:
		return io.ErrShortBuffer // nobody reads Withheld; drop the connection rather than block
	}
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushLocked()
}

func (l *link) flushLocked() {
	for _, raw := range l.held {
		if _, err := l.client.Write(raw); err != nil {
			break // the client is gone
		}
	}
	l.held = nil
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}
