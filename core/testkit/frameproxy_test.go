package testkit_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// proxied is a proxy before a server that the test plays.
type proxied struct {
	*testkit.FrameProxy
	path   string // of the proxy's socket
	server *net.UnixListener
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	dir := testkit.PrivateDir(t)
	target := filepath.Join(dir, "target")
	server, err := net.ListenUnix("unix", &net.UnixAddr{Name: target, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if err := server.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	p := &proxied{path: filepath.Join(dir, "proxy"), server: server}
	p.FrameProxy = testkit.NewFrameProxy(t, p.path, target)
	return p
}

// peers returns both ends of a proxied connection after the handshake.
func peers(t *testing.T) (p *proxied, client, server *end) {
	t.Helper()
	p = newProxied(t)
	client, server = p.join(t)
	return p, client, server
}

// join connects another client and returns both ends after the handshake.
func (p *proxied) join(t *testing.T) (client, server *end) {
	t.Helper()
	conn, err := net.Dial("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	client = newEnd(t, conn)
	client.write([]byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"))
	accepted, err := p.server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = newEnd(t, accepted)
	if head := server.head(); !strings.HasPrefix(head, "GET / HTTP/1.1\r\nHost: x\r\n") {
		t.Fatalf("the server got the head %q", head)
	}
	server.write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"))
	if head := client.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("the client got the head %q", head)
	}
	return client, server
}

// end is one side of a connection.
type end struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// newEnd takes a connection whose reads and writes fail after testkit.Patience.
func newEnd(t *testing.T, conn net.Conn) *end {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	return &end{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (e *end) write(raw []byte) {
	e.t.Helper()
	if _, err := e.conn.Write(raw); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) head() string {
	e.t.Helper()
	var head strings.Builder
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			e.t.Fatal(err)
		}
		head.WriteString(line)
		if line == "\r\n" {
			return head.String()
		}
	}
}

// expect reads exactly these bytes.
func (e *end) expect(want []byte) {
	e.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(e.in, got); err != nil || string(got) != string(want) {
		e.t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// frame builds one frame; a nil mask leaves it as a server sends it.
func frame(opcode byte, final bool, mask []byte, payload string) []byte {
	first := opcode
	if final {
		first |= 0x80
	}
	raw := []byte{first}
	maskBit := byte(0)
	if mask != nil {
		maskBit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		raw = append(raw, maskBit|byte(n))
	case n < 1<<16:
		raw = binary.BigEndian.AppendUint16(append(raw, maskBit|126), uint16(n))
	default:
		raw = binary.BigEndian.AppendUint64(append(raw, maskBit|127), uint64(n))
	}
	raw = append(raw, mask...)
	for i := range len(payload) {
		b := payload[i]
		if mask != nil {
			b ^= mask[i%4]
		}
		raw = append(raw, b)
	}
	return raw
}

func call(method string, size int) string {
	return fmt.Sprintf(`{"method":%q,"params":{"pad":%q}}`, method, strings.Repeat("x", size))
}

func TestFrameProxyPassesAndCounts(t *testing.T) {
	p, client, server := peers(t)
	mask := []byte{1, 2, 3, 4}
	for _, size := range []int{0, 200, 70_000} { // the three ways to write a length
		raw := frame(1, true, mask, call("turn/start", size))
		client.write(raw)
		server.expect(raw)
		raw = frame(1, true, nil, call("item/completed", size))
		server.write(raw)
		client.expect(raw)
	}
	if got := p.Requests("turn/start"); got != 3 {
		t.Errorf("Requests(turn/start) = %d, want 3", got)
	}
	if got := p.Requests("item/completed"); got != 0 {
		t.Errorf("Requests(item/completed) = %d, want 0: it came from the server", got)
	}
}

func TestFrameProxyWithholdsAndReleases(t *testing.T) {
	p, client, server := peers(t)
	p.Withhold("turn/completed")
	first := frame(1, true, nil, call("turn/completed", 1))
	text := call("turn/completed", 2)
	parts := append(frame(1, false, nil, text[:9]), frame(0, true, nil, text[9:])...)
	other := frame(1, true, nil, call("item/completed", 3))
	server.write(first)
	server.write(parts)
	server.write(other)
	for range 2 {
		if got := testkit.Await(t, p.Withheld(), "a withheld message"); got != "turn/completed" {
			t.Errorf("Withheld = %s, want turn/completed", got)
		}
	}
	client.expect(other) // what is not named passes by
	p.Release()
	client.expect(first)
	client.expect(parts)
	last := frame(1, true, nil, call("turn/completed", 4))
	server.write(last)
	client.expect(last)
}

func TestFrameProxyControlFrameWithinMessage(t *testing.T) {
	_, client, server := peers(t)
	text := call("item/completed", 0)
	head, ping, rest := frame(1, false, nil, text[:5]), frame(9, true, nil, "hi"), frame(0, true, nil, text[5:])
	server.write(head)
	server.write(ping)
	server.write(rest)
	client.expect(ping)
	client.expect(append(head, rest...))
}

func TestFrameProxyCut(t *testing.T) {
	p, client, server := peers(t)
	p.Withhold("turn/completed")
	server.write(frame(1, true, nil, call("turn/completed", 0)))
	testkit.Await(t, p.Withheld(), "a withheld message")
	p.Cut()
	for name, side := range map[string]*end{"client": client, "server": server} {
		if b, err := side.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the %s read %q, %v after Cut, want the end", name, b, err)
		}
	}
	client, server = p.join(t) // new clients are served, and what was held is forgotten
	p.Release()
	last := frame(1, true, nil, call("turn/completed", 1))
	server.write(last)
	client.expect(last)
}

func TestFrameProxyWithoutServer(t *testing.T) {
	dir := testkit.PrivateDir(t)
	testkit.NewFrameProxy(t, filepath.Join(dir, "proxy"), filepath.Join(dir, "nobody"))
	conn, err := net.Dial("unix", filepath.Join(dir, "proxy"))
	if err != nil {
		t.Fatal(err)
	}
	side := newEnd(t, conn)
	if b, err := side.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("read %q, %v with no server behind the proxy, want the end", b, err)
	}
}
