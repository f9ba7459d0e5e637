package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Direction says where a row's message came from.
type Direction string

// The directions. Received and Sent are frames of the engine's connection as
// they went over the wire; the others are the host's own rows.
const (
	Received Direction = "received"
	Sent     Direction = "sent"
	Exited   Direction = "exited"
	Attached Direction = "attached"
	Hole     Direction = "hole" // rows are missing here; message {"reason":"…"}
)

// Position names a row; the zero Position lies before every row.
type Position struct {
	Generation uint64
	Seq        uint64
}

// Before tells whether p comes before q.
func (p Position) Before(q Position) bool {
	if p.Generation != q.Generation {
		return p.Generation < q.Generation
	}
	return p.Seq < q.Seq
}

// Row is one event.
type Row struct {
	Generation uint64          `json:"gen"`
	Seq        uint64          `json:"seq"`
	At         int64           `json:"at"` // Unix nanoseconds
	Direction  Direction       `json:"direction"`
	Message    json.RawMessage `json:"message"`
}

// Position returns where r stands.
func (r Row) Position() Position { return Position{r.Generation, r.Seq} }

// HoleReason returns the words of a Hole row.
func (r Row) HoleReason() string {
	var m struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(r.Message, &m) // a hole without words is still a hole
	return m.Reason
}

func holeMessage(format string, args ...any) json.RawMessage {
	text, _ := json.Marshal(map[string]string{"reason": fmt.Sprintf(format, args...)})
	return text
}

// line encodes r. The message keeps its bytes, but for white space when it
// spans lines: a row is one line.
func (r Row) line() ([]byte, error) {
	if !json.Valid(r.Message) {
		return nil, fmt.Errorf("message of a spool row is not JSON")
	}
	b := append([]byte(`{"gen":`), strconv.FormatUint(r.Generation, 10)...)
	b = strconv.AppendUint(append(b, `,"seq":`...), r.Seq, 10)
	b = strconv.AppendInt(append(b, `,"at":`...), r.At, 10)
	b = append(append(b, `,"direction":"`...), r.Direction...)
	b = append(b, `","message":`...)
	if bytes.ContainsAny(r.Message, "\n\r") {
		var flat bytes.Buffer
		if err := json.Compact(&flat, r.Message); err != nil {
			return nil, err
		}
		b = append(b, flat.Bytes()...)
	} else {
		b = append(b, r.Message...)
	}
	return append(b, "}\n"...), nil
}
