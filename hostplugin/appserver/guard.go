package appserver

import "net"

// maxHandshakeBytes bounds the server's handshake answer.
const maxHandshakeBytes = 32 << 10

// Where the guard stands in the byte stream.
type guardState int

const (
	guardHandshake guardState = iota // in the HTTP answer
	guardFirst                       // before a frame's first byte
	guardLength                      // before its second byte
	guardExtended                    // in its 2 or 8 length bytes
	guardMask                        // in the masking key of a (wrong) masked frame
	guardPayload                     // in the payload
)

// guardConn watches the server's bytes pass and fails on a payload length that
// is not in its shortest form (RFC 6455 section 5.2: "the minimal number of
// bytes MUST be used"). The websocket library above it checks everything else
// and not this.
type guardConn struct {
	net.Conn
	state  guardState
	err    error  // sticky
	seen   int    // bytes of the handshake
	line   int    // bytes in the current handshake line
	last   byte   // last byte of the current handshake line
	need   int    // bytes missing in guardExtended and guardMask
	wide   int    // 2 or 8
	masked bool   // the frame carries a masking key
	length uint64 // payload length; in guardPayload: bytes still to come
}

// Read reads from the connection. Bytes before a broken rule are delivered;
// the error follows with the next call.
func (g *guardConn) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(p)
	good := g.scan(p[:n])
	if g.err != nil && good == 0 {
		return 0, g.err
	}
	return good, err
}

// scan advances over b and returns how many of its bytes kept the rules.
func (g *guardConn) scan(b []byte) int {
	for i := 0; i < len(b); {
		if g.state == guardPayload {
			step := min(uint64(len(b)-i), g.length)
			g.length -= step
			i += int(step)
			if g.length == 0 {
				g.state = guardFirst
			}
			continue
		}
		if rule := g.step(b[i]); rule != "" {
			g.err = &ProtocolError{Rule: rule}
			return i
		}
		i++
	}
	return len(b)
}

// step takes one byte outside a payload and returns the rule it broke, or "".
func (g *guardConn) step(c byte) string {
	switch g.state {
	case guardHandshake:
		return g.handshakeByte(c)
	case guardFirst:
		g.state = guardLength
	case guardLength:
		g.masked, g.length = c&0x80 != 0, uint64(c&0x7f)
		switch g.length {
		case 126:
			g.begin(guardExtended, 2)
		case 127:
			g.begin(guardExtended, 8)
		default:
			g.endLength()
		}
	case guardExtended:
		g.length = g.length<<8 | uint64(c)
		if g.need--; g.need > 0 {
			return ""
		}
		if g.wide == 2 && g.length < 126 || g.wide == 8 && g.length < 1<<16 {
			return "a frame's length is not minimally encoded"
		}
		if g.length > MaxFrameBytes {
			return "a frame is longer than 16 MiB"
		}
		g.endLength()
	case guardMask:
		if g.need--; g.need == 0 {
			g.endHeader()
		}
	}
	return ""
}

// handshakeByte finds the empty line that ends the HTTP answer. Like the HTTP
// reader above it takes LF and CRLF for a line's end.
func (g *guardConn) handshakeByte(c byte) string {
	if g.seen++; g.seen > maxHandshakeBytes {
		return "the handshake answer is longer than 32 KiB"
	}
	if c != '\n' {
		g.line++
		g.last = c
		return ""
	}
	if g.line == 0 || g.line == 1 && g.last == '\r' {
		g.state = guardFirst
	}
	g.line = 0
	return ""
}

func (g *guardConn) begin(s guardState, bytes int) {
	g.state, g.need, g.wide, g.length = s, bytes, bytes, 0
}

func (g *guardConn) endLength() {
	if g.masked {
		g.state, g.need = guardMask, 4
		return
	}
	g.endHeader()
}

func (g *guardConn) endHeader() {
	g.state = guardPayload
	if g.length == 0 {
		g.state = guardFirst
	}
}
