package modeltest

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// source hands out the lines of a script. Statements may take further lines
// for a block or for JSON.
type source struct {
	lines  []string
	number int // of the last line handed out, from 1
}

func newSource(text string) *source {
	return &source{lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
}

// next returns the next line that holds a statement.
func (s *source) next() (*line, bool) {
	for {
		text, ok := s.raw()
		if !ok {
			return nil, false
		}
		trimmed := strings.TrimSpace(text)
		if trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			return &line{src: s, number: s.number, left: trimmed}, true
		}
	}
}

func (s *source) raw() (string, bool) {
	if s.number >= len(s.lines) {
		return "", false
	}
	s.number++
	return s.lines[s.number-1], true
}

// line is one statement while it is read from the left.
type line struct {
	src    *source
	number int
	left   string
}

func (l *line) rest() string { return l.left }
func (l *line) done() bool   { return l.left == "" }

func (l *line) end() error {
	if l.left != "" {
		return errorf(l.number, "remove it", "unexpected text %q", l.left)
	}
	return nil
}

// word takes the next run of characters up to a space. what names it in the
// error when there is none.
func (l *line) word(what string) (string, error) {
	if l.left == "" {
		return "", errorf(l.number, "write it on the same line", "%s is missing", what)
	}
	word, rest, _ := strings.Cut(l.left, " ")
	l.left = strings.TrimSpace(rest)
	return word, nil
}

// text takes a quoted string, or a block that begins with <<WORD.
func (l *line) text() (string, error) {
	if marker, ok := strings.CutPrefix(l.left, "<<"); ok {
		return l.block(marker)
	}
	quoted, err := strconv.QuotedPrefix(l.left)
	if err != nil {
		return "", errorf(l.number, `write it as "text", or as a block with <<END`, "a quoted text is expected at %q", l.left)
	}
	l.left = strings.TrimSpace(l.left[len(quoted):])
	text, err := strconv.Unquote(quoted)
	if err != nil {
		return "", errorf(l.number, "use the escapes of Go strings", "the text %s can't be read", quoted)
	}
	return text, nil
}

// block takes the lines up to one that holds the marker alone and removes the
// indentation that they share.
func (l *line) block(marker string) (string, error) {
	if marker == "" || strings.ContainsAny(marker, " \t") {
		return "", errorf(l.number, "write <<END as the last word of the line", "the block's marker %q is not one word", marker)
	}
	l.left = ""
	var lines []string
	for {
		text, ok := l.src.raw()
		if !ok {
			return "", errorf(l.number, "end it with a line that holds "+marker+" alone", "the block <<%s has no end", marker)
		}
		if strings.TrimSpace(text) == marker {
			return strings.Join(dedent(lines), "\n"), nil
		}
		lines = append(lines, text)
	}
}

func dedent(lines []string) []string {
	shared := -1
	for _, text := range lines {
		if trimmed := strings.TrimLeft(text, " \t"); trimmed != "" {
			if indent := len(text) - len(trimmed); shared < 0 || indent < shared {
				shared = indent
			}
		}
	}
	out := make([]string, len(lines))
	for i, text := range lines {
		if len(text) >= shared && shared > 0 {
			text = text[shared:]
		}
		out[i] = strings.TrimRight(text, " \t")
	}
	return out
}

func (l *line) wordOrText(what string) (string, error) {
	if strings.HasPrefix(l.left, `"`) || strings.HasPrefix(l.left, "`") {
		return l.text()
	}
	return l.word(what)
}

// json takes one JSON object, which may go on over further lines.
func (l *line) json() (json.RawMessage, error) {
	if !strings.HasPrefix(l.left, "{") {
		return nil, errorf(l.number, `write it as {"name": "value"}`, "a JSON object is expected at %q", l.left)
	}
	text := l.left + "\n" + strings.Join(l.src.lines[l.src.number:], "\n")
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		if err == io.ErrUnexpectedEOF {
			return nil, errorf(l.number, "close its braces", "the JSON object has no end")
		}
		return nil, errorf(l.number, "correct it", "the JSON object can't be read: %v", err)
	}
	used, after := text[:dec.InputOffset()], text[dec.InputOffset():]
	l.src.number += strings.Count(used, "\n")
	after, _, _ = strings.Cut(after, "\n")
	l.left = strings.TrimSpace(after)
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, errorf(l.number, "correct it", "the JSON object can't be read: %v", err)
	}
	return compact.Bytes(), nil
}
