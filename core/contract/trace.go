package contract

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxLine bounds one row of a log, in bytes. Longer ones are passed over.
const maxLine = 16 << 20

// Commands reads out of an event log which commands ran and how they ended.
// Rows are those of `codex exec` (item.completed, command_execution) or of the
// app-server (item/completed, commandExecution), bare or as a session keeps
// them. What can't be read proves nothing and is passed over.
func Commands(events io.Reader) ([]Command, error) {
	src := bufio.NewReaderSize(events, 64<<10)
	var list []Command
	for {
		line, err := core.ReadLine(src, maxLine)
		if c, ok := command(line); ok {
			list = append(list, c)
		}
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, core.Errorf(core.KindOS, "read the event log: %w", err)
		}
	}
}

// ran is an item that tells of a command, in both vocabularies.
type ran struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Actions []struct {
		Command string `json:"command"`
	} `json:"commandActions"`
	ExitCode  *int `json:"exitCode"`
	ExitCode2 *int `json:"exit_code"`
}

func command(line []byte) (Command, bool) {
	var row struct {
		Direction string          `json:"direction"`
		Message   json.RawMessage `json:"message"`
		Type      string          `json:"type"`
		Method    string          `json:"method"`
		Item      ran             `json:"item"`
		Params    struct {
			Item ran `json:"item"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &row) != nil {
		return Command{}, false
	}
	if len(row.Message) > 0 {
		if row.Direction != "received" {
			return Command{}, false
		}
		return command(row.Message)
	}
	var it ran
	switch {
	case row.Type == "item.completed" && row.Item.Type == "command_execution":
		it = row.Item
		it.ExitCode = it.ExitCode2
	case row.Method == "item/completed" && row.Params.Item.Type == "commandExecution":
		it = row.Params.Item
	default:
		return Command{}, false
	}
	c := Command{ExitCode: it.ExitCode}
	for _, action := range it.Actions {
		c.Forms = append(c.Forms, strings.TrimSpace(action.Command))
	}
	c.Forms = append(c.Forms, strings.TrimSpace(it.Command), unwrapped(it.Command))
	return c, true
}

// unwrapped takes off the shell in which Codex runs a command: what stands
// after -c or -lc, unquoted; else the command as it is.
func unwrapped(text string) string {
	shell, rest, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		return text
	}
	switch path.Base(shell) {
	case "sh", "bash", "zsh", "dash":
	default:
		return text
	}
	flag, script, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if !ok || flag != "-c" && flag != "-lc" {
		return text
	}
	return strings.TrimSpace(unquoted(strings.TrimSpace(script)))
}

// unquoted undoes the quoting of one shell word: parts in single quotes, in
// double quotes, and escaped characters. A text that is no single word stays as
// it is.
func unquoted(word string) string {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		switch c := word[i]; c {
		case '\'':
			end := strings.IndexByte(word[i+1:], '\'')
			if end < 0 {
				return word
			}
			b.WriteString(word[i+1 : i+1+end])
			i += end + 1
		case '"':
			for i++; i < len(word) && word[i] != '"'; i++ {
				if word[i] == '\\' && i+1 < len(word) && strings.IndexByte("\\\"$`", word[i+1]) >= 0 {
					i++
				}
				b.WriteByte(word[i])
			}
			if i >= len(word) {
				return word
			}
		case '\\':
			if i+1 < len(word) {
				i++
				b.WriteByte(word[i])
			}
		case ' ', '\t', '\n':
			return word
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
