package appservertest

import (
	"encoding/json"
	"fmt"
)

// Message is a JSON-RPC frame of the client.
type Message struct {
	Raw    string          // the frame's text
	ID     int64           // 0 in notifications
	Method string          // empty in answers
	Params json.RawMessage // nil when absent
	Result json.RawMessage // of an answer
}

// Message reads the client's next text message; control frames before it are
// passed over.
func (c *Conn) Message() Message {
	c.t.Helper()
	for {
		f := c.Frame()
		if f.Opcode != OpText {
			continue
		}
		var m struct {
			ID     int64           `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		// An answer repeats the id of our own request, which may be a string.
		if err := json.Unmarshal(f.Payload, &m); err != nil && m.Result == nil {
			c.t.Fatalf("appservertest: the client sent %q: %v", f.Payload, err)
		}
		return Message{Raw: string(f.Payload), ID: m.ID, Method: m.Method, Params: m.Params, Result: m.Result}
	}
}

// Expect reads the client's next message, which must be of that method.
func (c *Conn) Expect(method string) Message {
	c.t.Helper()
	m := c.Message()
	if m.Method != method {
		c.t.Fatalf("appservertest: the client sent %s, want %s", m.Raw, method)
	}
	return m
}

// Reply answers a request; result is JSON text.
func (c *Conn) Reply(to Message, result string) {
	c.t.Helper()
	c.Text(fmt.Sprintf(`{"id":%d,"result":%s}`, to.ID, result))
}

// Refuse answers a request with an error.
func (c *Conn) Refuse(to Message, code int, message string) {
	c.t.Helper()
	text, _ := json.Marshal(message) // a string always encodes
	c.Text(fmt.Sprintf(`{"id":%d,"error":{"code":%d,"message":%s}}`, to.ID, code, text))
}

// Notify sends an event; params is JSON text.
func (c *Conn) Notify(method, params string) {
	c.t.Helper()
	c.Text(fmt.Sprintf(`{"method":%q,"params":%s}`, method, params))
}

// Ask sends a request of the server; id is the JSON text of its id.
func (c *Conn) Ask(id, method, params string) {
	c.t.Helper()
	c.Text(fmt.Sprintf(`{"id":%s,"method":%q,"params":%s}`, id, method, params))
}

// Initialize answers the client's initialize and takes its initialized.
func (c *Conn) Initialize() {
	c.t.Helper()
	c.Reply(c.Expect("initialize"), `{"userAgent":"scripted/0.149.0 (test)","codexHome":"/nowhere","platformFamily":"unix","platformOs":"linux"}`)
	c.Expect("initialized")
}
