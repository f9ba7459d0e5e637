package trace

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// withheld stands where private reasoning was.
const withheld = "[private reasoning is not shown]"

// filtered is a line of the log as it is shown: JSON without private reasoning,
// or the beginning of what is no JSON.
func filtered(line []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber() // as it was written, whatever a float can hold
	var v any
	err := d.Decode(&v)
	if _, more := d.Token(); err != nil || more != io.EOF { //nolint:errorlint // a decoder returns it as it is
		return encode(map[string]string{"malformed_event": begin(string(line))})
	}
	return encode(clean(v))
}

// begin is the beginning of a text that can't be read as JSON. What may hold
// reasoning can't be told apart in it, and is withheld.
func begin(text string) string {
	if mayReason(text) {
		return withheld
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if runes := []rune(text); len(runes) > malformed {
		return string(runes[:malformed])
	}
	return text
}

// mayReason reports whether a kind, a method or a text speaks of reasoning.
func mayReason(text string) bool { return strings.Contains(strings.ToLower(text), "reasoning") }

// clean takes private reasoning out of a value. Codex tells it in notices of
// their own (item/reasoning/…), in items of type reasoning wherever a thread or
// a turn is told, and, raw or sealed, in members with names of their own.
func clean(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	case map[string]any:
		return cleanObject(v)
	}
	return v
}

func cleanObject(m map[string]any) any {
	if kind, _ := m["type"].(string); mayReason(kind) {
		return map[string]any{"type": kind, "id": m["id"], "withheld": withheld}
	}
	if method, _ := m["method"].(string); method != "" {
		params, _ := m["params"].(map[string]any)
		text, _ := params["text"].(string)
		if mayReason(method) || method == "host/unreadable" && mayReason(text) {
			return map[string]any{"method": method, "withheld": withheld}
		}
	}
	for name, member := range m {
		switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
		case "reasoningcontent", "reasoningdetails", "reasoningtext", "encryptedcontent":
			m[name] = withheld
		default:
			m[name] = clean(member)
		}
	}
	return m
}
