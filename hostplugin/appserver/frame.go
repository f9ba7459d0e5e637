package appserver

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// encode writes params as JSON without HTML escapes: text reaches the model as
// it was given. nil stays absent.
func encode(params any) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(params); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// requestFrame builds a request. App-server's dialect has no "jsonrpc" member.
func requestFrame(id int64, method string, params json.RawMessage) []byte {
	frame := append([]byte(`{"id":`), strconv.FormatInt(id, 10)...)
	frame = append(frame, `,"method":`...)
	return appendParams(append(frame, quote(method)...), params)
}

func notificationFrame(method string, params json.RawMessage) []byte {
	return appendParams(append([]byte(`{"method":`), quote(method)...), params)
}

func appendParams(frame []byte, params json.RawMessage) []byte {
	if params != nil {
		frame = append(frame, `,"params":`...)
		frame = append(frame, params...)
	}
	return append(frame, '}')
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}
