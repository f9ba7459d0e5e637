package testkit

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxMessage bounds one websocket message, in bytes. The engine's own limit is
// 16 MiB both ways.
const maxMessage = 17 << 20

// Opcodes of RFC 6455, section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opFirstControl = 0x8
)

// message is one websocket message, or one control frame.
type message struct {
	raw    []byte // all its frames as they were on the wire
	opcode byte
	text   []byte // unmasked
}

// method returns the JSON-RPC method of a text message, or "" for responses
// and for all else.
func (m message) method() string {
	var head struct {
		Method string `json:"method"`
	}
	if m.opcode != opText || json.Unmarshal(m.text, &head) != nil {
		return ""
	}
	return head.Method
}

// frameReader reads messages from one direction of a connection. Control
// frames come in between the parts of a fragmented message and are returned
// on their own, before it.
type frameReader struct {
	in      *bufio.Reader
	partial *message // fragments read so far; nil: none
}

func (r *frameReader) next() (message, error) {
	for {
		frame, final, err := r.frame()
		if err != nil {
			return message{}, err
		}
		if frame.opcode >= opFirstControl {
			return frame, nil
		}
		if r.partial == nil {
			r.partial = &frame
		} else {
			r.partial.raw = append(r.partial.raw, frame.raw...)
			r.partial.text = append(r.partial.text, frame.text...)
		}
		if len(r.partial.text) > maxMessage {
			return message{}, fmt.Errorf("message of more than %d bytes", maxMessage)
		}
		if final {
			whole := *r.partial
			r.partial = nil
			return whole, nil
		}
	}
}

// frame reads one frame: two bytes, the extended length, the mask, the
// payload.
func (r *frameReader) frame() (m message, final bool, err error) {
	head, err := r.take(&m, 2)
	if err != nil {
		return m, false, err
	}
	final, m.opcode = head[0]&0x80 != 0, head[0]&0x0f
	masked, length := head[1]&0x80 != 0, uint64(head[1]&0x7f)
	switch length {
	case 126:
		extended, err := r.take(&m, 2)
		if err != nil {
			return m, false, err
		}
		length = uint64(binary.BigEndian.Uint16(extended))
	case 127:
		extended, err := r.take(&m, 8)
		if err != nil {
			return m, false, err
		}
		length = binary.BigEndian.Uint64(extended)
	}
	if length > maxMessage {
		return m, false, fmt.Errorf("frame of %d bytes, want at most %d", length, maxMessage)
	}
	var mask []byte
	if masked {
		if mask, err = r.take(&m, 4); err != nil {
			return m, false, err
		}
		mask = append([]byte(nil), mask...)
	}
	payload, err := r.take(&m, int(length))
	if err != nil {
		return m, false, err
	}
	m.text = append([]byte(nil), payload...)
	if mask != nil {
		for i := range m.text {
			m.text[i] ^= mask[i%4]
		}
	}
	return m, final, nil
}

// take reads n bytes, keeps them in m.raw and returns them. They are valid
// until the next call.
func (r *frameReader) take(m *message, n int) ([]byte, error) {
	start := len(m.raw)
	m.raw = append(m.raw, make([]byte, n)...)
	_, err := io.ReadFull(r.in, m.raw[start:])
	return m.raw[start:], err
}
