package modeltest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// capturePattern is ${FIELD N}, ${FIELD N json}, ${FIELD N else WORDS}, and the
// same with @output and @user.
var capturePattern = regexp.MustCompile(`\$\{(@?[A-Za-z_][A-Za-z0-9_.-]*) (\d{1,6}|last)( json)?(?: else ([^}]*))?\}`)

// expand replaces the captures in a text.
func (v *view) expand(text string) (string, error) {
	var failed error
	out := capturePattern.ReplaceAllStringFunc(text, func(found string) string {
		m := capturePattern.FindStringSubmatch(found)
		raw, err := v.capture(m)
		if err != nil && failed == nil {
			failed = err
		}
		return unquoted(raw)
	})
	return out, failed
}

// capture returns the JSON text of what one match of capturePattern stands for.
func (v *view) capture(m []string) (string, error) {
	values := v.values(m[1])
	n := len(values)
	if m[2] != "last" {
		n, _ = strconv.Atoi(m[2]) // the pattern admits digits only
	}
	if n >= 1 && n <= len(values) {
		return values[n-1], nil
	}
	if strings.Contains(m[0], " else ") {
		return string(mustJSON(m[4])), nil
	}
	return "", badRequest("script: %s has no value, there are %d in the conversation so far", m[0], len(values))
}

func (v *view) values(name string) []string {
	var texts []string
	switch name {
	case "@output":
		texts = v.outputs
	case "@user":
		texts = v.users
	default:
		var values []string
		for _, output := range v.outputs {
			for _, raw := range fieldValues(output, name) {
				if !slices.Contains(values, raw) {
					values = append(values, raw)
				}
			}
		}
		return values
	}
	values := make([]string, len(texts))
	for i, text := range texts {
		values[i] = string(mustJSON(text))
	}
	return values
}

// fieldValues returns the JSON texts of all scalar members called field in a
// text that holds JSON somewhere. It does not parse the text as a whole: tool
// outputs have lines before their JSON, and may be cut. JSON that stands within
// a JSON string, as Codex shows the text of MCP tools, is looked into after
// that.
func fieldValues(text, field string) []string {
	name := string(mustJSON(field))
	nested := nestedJSON(text)
	var values []string
	for {
		i := strings.Index(text, name)
		if i < 0 {
			for _, inner := range nested {
				values = append(values, fieldValues(inner, field)...)
			}
			return values
		}
		text = text[i+len(name):]
		rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), ":")
		if !ok {
			continue
		}
		var raw json.RawMessage
		dec := json.NewDecoder(strings.NewReader(rest))
		if dec.Decode(&raw) == nil && !bytes.ContainsAny(raw[:1], "{[") {
			values = append(values, string(raw))
		}
	}
}

// nestedJSON returns the values of all strings in a text that begin as JSON.
func nestedJSON(text string) []string {
	var found []string
	for {
		start := strings.Index(text, `"`)
		if start < 0 {
			return found
		}
		end := start + stringLength(text[start:])
		quoted := text[start:end]
		inner := unquoted(quoted)
		if inner != quoted && strings.ContainsAny(inner[:min(len(inner), 1)], "{[") {
			found = append(found, inner)
		}
		text = text[end:]
	}
}

// unquoted returns the value of a JSON string, and any other JSON as it is.
func unquoted(raw string) string {
	var text string
	if strings.HasPrefix(raw, `"`) && json.Unmarshal([]byte(raw), &text) == nil {
		return text
	}
	return raw
}

// expandJSON replaces the captures in all strings of a JSON value.
func (v *view) expandJSON(raw json.RawMessage) (string, error) {
	if !bytes.Contains(raw, []byte("${")) {
		return string(raw), nil
	}
	var out bytes.Buffer
	for len(raw) > 0 {
		start := bytes.IndexByte(raw, '"')
		if start < 0 {
			break
		}
		out.Write(raw[:start])
		end := start + stringLength(raw[start:])
		text, err := v.expandString(raw[start:end])
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		raw = raw[end:]
	}
	out.Write(raw)
	return out.String(), nil
}

// expandString expands one JSON string, quotes included.
func (v *view) expandString(quoted []byte) (string, error) {
	text := unquoted(string(quoted))
	if m := capturePattern.FindStringSubmatch(text); m != nil && m[0] == text && m[3] != "" {
		return v.capture(m)
	}
	text, err := v.expand(text)
	if err != nil {
		return "", err
	}
	return string(mustJSON(text)), nil
}

// stringLength returns the length of the JSON string that raw begins with.
func stringLength[T ~string | ~[]byte](raw T) int {
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// mustJSON encodes a value that can't fail to encode.
func mustJSON(value any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic("modeltest: " + err.Error())
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}
