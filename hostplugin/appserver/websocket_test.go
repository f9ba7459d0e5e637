package appserver_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver/appservertest"
)

// Spec: A046
func TestHandshakeRefusesWhatWasNotAskedFor(t *testing.T) {
	for name, answer := range map[string]appservertest.Answer{
		"no upgrade token":       {Connection: "keep-alive"},
		"unrequested extension":  {Extra: []string{"Sec-WebSocket-Extensions: permessage-deflate"}},
		"well-formed extension":  {Extra: []string{"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"}},
		"unknown extension":      {Extra: []string{"Sec-WebSocket-Extensions: x-other"}},
		"unrequested protocol":   {Extra: []string{"Sec-WebSocket-Protocol: chat"}},
		"endless answer":         {Extra: []string{"X-Pad: " + strings.Repeat("x", 40<<10)}},
		"endless answer in rows": {Extra: strings.Split(strings.Repeat("X-Pad: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 1<<10)+"X-Pad: y", "\n")},
	} {
		t.Run(name, func(t *testing.T) {
			_, conn, err := dial(t, answer, nil)
			var protocol *appserver.ProtocolError
			if !errors.As(err, &protocol) {
				t.Fatalf("Dial() = %v, want a ProtocolError", err)
			}
			conn.Closed()
		})
	}
}

// Spec: A046
func TestHandshakeOffersNothing(t *testing.T) {
	_, conn := connected(t, nil)
	for _, name := range []string{"Sec-Websocket-Extensions", "Sec-Websocket-Protocol", "Origin"} {
		if got := conn.Request.Header.Values(name); len(got) > 0 {
			t.Errorf("the client's handshake has %s: %q, want none", name, got)
		}
	}
}

// Spec: A047
func TestFragmentsAreJoinedAroundAPing(t *testing.T) {
	got := make(chan string, 1)
	_, conn := connected(t, &appserver.Options{Received: func(m appserver.Message) { got <- m.Method }})
	conn.Write([]byte("\x01\x0b{\"method\":\"" + "\x89\x01?" + "\x80\x07hello\"}"))
	pong := conn.Frame()
	if pong.Opcode != appservertest.OpPong || !pong.Masked || string(pong.Payload) != "?" {
		t.Errorf("answer to the ping = %+v, want a masked pong with its payload", pong)
	}
	if method := <-got; method != "hello" {
		t.Errorf("joined message has method %q, want %q", method, "hello")
	}
}

// Spec: A048
func TestNonconformingFramesEndTheConnection(t *testing.T) {
	for name, frames := range map[string]string{
		"masked":                       "\x81\x82mask\x16\x1c",
		"masked and empty":             "\x81\x80mask",
		"reserved bit 1":               "\xc1\x00",
		"reserved bit 2":               "\xa1\x00",
		"reserved bit 3":               "\x91\x00",
		"fragmented control":           "\x09\x00",
		"control of 126 bytes":         "\x89\x7e\x00\x7e" + strings.Repeat("x", 126),
		"2 length bytes for 1":         "\x81\x7e\x00\x01x",
		"2 length bytes for 125":       "\x81\x7e\x00\x7d" + strings.Repeat("x", 125),
		"8 length bytes for 2":         "\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x02{}",
		"8 length bytes for 65535":     "\x81\x7f" + length8(65535) + strings.Repeat(" ", 65533) + "{}",
		"8 length bytes, top bit":      "\x81\x7f\x80\x00\x00\x00\x00\x01\x00\x00",
		"longer than 16 MiB":           "\x81\x7f" + length8(16<<20+1),
		"binary":                       "\x82\x00",
		"binary fragment":              "\x02\x01{\x80\x01}",
		"unknown opcode":               "\x83\x00",
		"continuation of nothing":      "\x80\x00",
		"message inside a message":     "\x01\x01{\x81\x02{}",
		"text that is no UTF-8":        "\x81\x02\xff\xfe",
		"text that is no JSON":         "\x81\x02{]",
		"JSON that is no object":       "\x81\x02[]",
		"violation after a good frame": "\x81\x02{}\x81\x7e\x00\x02{}",
	} {
		t.Run(name, func(t *testing.T) {
			client, conn := connected(t, nil)
			conn.Write([]byte(frames))
			var protocol *appserver.ProtocolError
			if err := ended(t, client); !errors.As(err, &protocol) {
				t.Errorf("Err() = %v, want a ProtocolError", err)
			}
			conn.Closed()
			if _, err := client.Call(withTime(t), "any", nil); !errors.Is(err, appserver.ErrNotSent) {
				t.Errorf("Call() after it = %v, want ErrNotSent", err)
			}
		})
	}
}

func length8(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func TestLengthsAtTheBordersAreTaken(t *testing.T) {
	for _, n := range []int{21, 125, 126, 65535, 65536, 16 << 20} {
		got := make(chan int, 1)
		_, conn := connected(t, &appserver.Options{Received: func(m appserver.Message) { got <- len(m.Raw) }})
		conn.Text(`{"method":"x","p":"` + strings.Repeat("x", n-21) + `"}`)
		if size := <-got; size != n {
			t.Errorf("message of %d bytes arrived with %d", n, size)
		}
	}
}

// Spec: A049
func TestCloseSendsAMaskedNormalClose(t *testing.T) {
	client, conn := connected(t, nil)
	client.Close()
	f := conn.Frame()
	if f.Opcode != appservertest.OpClose || !f.Masked || !f.Final {
		t.Errorf("frame at Close = %+v, want a masked close frame", f)
	}
	if len(f.Payload) != 2 || binary.BigEndian.Uint16(f.Payload) != 1000 {
		t.Errorf("payload of the close frame = %x, want 03e8", f.Payload)
	}
	conn.Closed()
	if err := client.Err(); !errors.Is(err, appserver.ErrClosed) {
		t.Errorf("Err() after Close = %v, want ErrClosed", err)
	}
	client.Close() // a second one does nothing
}
