package supervisor

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxRow is the longest row of an event log that is read for its text, in
// bytes; a longer one is skipped.
const maxRow = 16 << 20

// presentable is an item of a turn that people are shown as its outcome.
func presentable(kind string) bool { return kind == "agentMessage" || kind == "plan" }

// lastMessage returns the last message that an engine sent, by its event log; a
// log that does not exist has none. Rows that can't be read are passed over.
func lastMessage(path string) (string, error) {
	text := ""
	err := eachItem(path, func(_ string, it item) {
		if presentable(it.Type) {
			text = cmp.Or(it.Text, text)
		}
	})
	return text, err
}

// finalMessage returns the last message of exactly that turn.
func finalMessage(path, turn string) (string, error) {
	text := ""
	err := eachItem(path, func(id string, it item) {
		if id == turn && presentable(it.Type) {
			text = it.Text
		}
	})
	return text, err
}

// compactedIn reports whether the engine shortened the thread's context in that
// turn.
func compactedIn(path, turn string) (found bool, err error) {
	err = eachItem(path, func(id string, it item) { found = found || id == turn && it.Type == "contextCompaction" })
	return found, err
}

// eachItem calls yield for every item that the engine completed, in the order of
// the log.
func eachItem(path string, yield func(turn string, it item)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return core.Errorf(core.KindOS, "reading the event log: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := core.ReadLine(r, maxRow)
		if turn, it, ok := completedItem(line); ok {
			yield(turn, it)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return core.Errorf(core.KindOS, "reading the event log %s: %w", path, err)
		}
	}
}

func completedItem(line []byte) (turn string, it item, ok bool) {
	if !bytes.Contains(line, []byte(`item/completed`)) {
		return "", item{}, false
	}
	var row struct {
		Direction string `json:"direction"`
		Message   frame  `json:"message"`
	}
	if json.Unmarshal(line, &row) != nil || row.Direction != "received" || row.Message.Method != "item/completed" {
		return "", item{}, false
	}
	p := row.Message.Params
	return p.TurnID, p.Item, true
}
