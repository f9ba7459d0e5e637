package smoke

import (
	"io"
	"strings"
)

// Said reports whether a thread's agent itself said a text, as an event log of the
// app-server has it. What somebody else asked of the thread does not count.
func Said(events io.Reader, thread, text string) (bool, error) {
	said := false
	err := eachLine(events, func(row object) {
		params := row.object("params")
		item := params.object("item")
		if row.text("method") == "item/completed" && params.text("threadId") == thread && item.text("type") == "agentMessage" {
			said = said || strings.Contains(item.text("text"), text)
		}
	})
	return said, err
}
