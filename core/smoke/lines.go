// Package smoke reads out of event logs and telemetry what a smoke test may
// claim: which tools were really called, who really served a route, and what an
// agent really said. What can't be read proves nothing and is passed over; nothing
// here fails because of what a model or a provider wrote.
package smoke

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxLine bounds one row of a log, in bytes. Longer ones are passed over.
const maxLine = 16 << 20

// object is a JSON object whose members are looked at one by one, so that an
// odd member spoils nothing but itself.
type object map[string]json.RawMessage

// eachLine calls use with every line that is a JSON object. A row of a session's
// event log is unwrapped to the message in it.
func eachLine(rows io.Reader, use func(object)) error {
	src := bufio.NewReaderSize(rows, 64<<10)
	for {
		line, err := core.ReadLine(src, maxLine)
		if row := parse(line); row != nil {
			if message := row.object("message"); message != nil && row["gen"] != nil {
				row = message
			}
			use(row)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return core.Errorf(core.KindOS, "read the event log: %w", err)
		}
	}
}

func parse(raw []byte) object {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

func (o object) object(name string) object { return parse(o[name]) }

// text returns a member that is a string, else "".
func (o object) text(name string) string {
	var s string
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// number returns a member that is a count, else nil.
func (o object) number(name string) *uint32 {
	var n *uint32
	if json.Unmarshal(o[name], &n) != nil {
		return nil
	}
	return n
}
