package appserver

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

const upgraded = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"

// FuzzGuard holds the guard to what a plain reading of the whole stream says,
// however the stream is cut into reads.
func FuzzGuard(f *testing.F) {
	for _, frames := range []string{
		"", "\x81\x02{}", "\x81\x7e\x00\x01x", "\x81\x7e\x00\x7e" + strings.Repeat("x", 126),
		"\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x02{}", "\x81\x82mask\x16\x1c\x81\x7e\x00\x02{}",
		"\x01\x03hel\x89\x01?\x80\x02lo", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
	} {
		f.Add([]byte(upgraded+frames), uint8(1))
		f.Add([]byte(strings.ReplaceAll(upgraded, "\r\n", "\n")+frames), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		want, broken := allowed(stream)
		guard := &guardConn{Conn: &chunks{data: stream, size: int(chunk)%64 + 1}}
		got, err := io.ReadAll(guard)
		if !bytes.Equal(got, stream[:want]) || (err != nil) != broken {
			t.Errorf("guard passed %d bytes, error %v; want %d, broken %v", len(got), err, want, broken)
		}
	})
}

// allowed reads the stream in one go: how many bytes keep the rules, and
// whether a byte after them breaks one.
func allowed(b []byte) (n int, broken bool) {
	at := headEnd(b)
	if at < 0 {
		return min(len(b), maxHandshakeBytes), len(b) > maxHandshakeBytes
	}
	if at > maxHandshakeBytes {
		return maxHandshakeBytes, true
	}
	for at+2 <= len(b) {
		length, wide := uint64(b[at+1]&0x7f), 0
		switch length {
		case 126:
			wide = 2
		case 127:
			wide = 8
		}
		header := at + 2 + wide
		if header > len(b) {
			break
		}
		if wide > 0 {
			length = 0
			for _, c := range b[at+2 : header] {
				length = length<<8 | uint64(c)
			}
			if wide == 2 && length < 126 || wide == 8 && length < 1<<16 || length > MaxFrameBytes {
				return header - 1, true
			}
		}
		if b[at+1]&0x80 != 0 {
			header += 4
		}
		at = header + int(length)
	}
	return len(b), false
}

// headEnd returns where the frames begin; -1 when the head never ends.
func headEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		line := b[at : at+i]
		at += i + 1
		if len(bytes.TrimSuffix(line, []byte("\r"))) == 0 {
			return at
		}
	}
}

// chunks is a connection that gives at most size bytes a read.
type chunks struct {
	net.Conn
	data []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}
