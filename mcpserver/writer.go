package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
)

// writer is the only way to the client. Answers never mix, and after the first
// failed write nothing more is written: the client is gone.
type writer struct {
	mu   sync.Mutex // held over a write, which may block for as long as the client does not read
	out  io.Writer
	gone atomic.Pointer[error] // the write that failed
}

// result answers a request. The id goes out as the bytes that came in.
func (w *writer) result(id json.RawMessage, result json.RawMessage) {
	w.line(id, "result", result)
}

func (w *writer) fail(id json.RawMessage, fault *rpcError) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	body, err := json.Marshal(fault)
	if err != nil {
		return // an rpcError is three plain fields
	}
	w.line(id, "error", body)
}

func (w *writer) line(id json.RawMessage, key string, body json.RawMessage) {
	var b bytes.Buffer
	b.Grow(len(body) + len(id) + 64)
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.Write(id)
	b.WriteString(`,"` + key + `":`)
	b.Write(body)
	b.WriteString("}\n")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone.Load() != nil {
		return
	}
	if _, err := w.out.Write(b.Bytes()); err != nil {
		w.gone.Store(&err)
	}
}

// failed returns the error of the write that failed, if one did.
func (w *writer) failed() error {
	if err := w.gone.Load(); err != nil {
		return *err
	}
	return nil
}
