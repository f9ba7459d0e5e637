package gatewayplugin

import (
	"strings"
	"unicode/utf8"
)

// secretValues are the secrets of one route. Some providers repeat what they
// were sent; it must not go on from here.
type secretValues []string

func (s secretValues) redact(text string) string {
	for _, value := range s {
		if value != "" {
			text = strings.ReplaceAll(text, value, "[secret]")
		}
	}
	return text
}

// clean makes a provider's text fit to be shown and kept: bounded, without
// control characters, and without secrets.
func (s secretValues) clean(text string) string {
	text = oneLine(s.redact(text))
	if utf8.RuneCountInString(text) > maxMessage {
		text = string([]rune(text)[:maxMessage]) + "…"
	}
	return text
}

// word is clean for a word that should be short.
func (s secretValues) word(text string) string { return bounded(s.redact(text)) }

// bounded cuts a word of a provider or of Codex that should be short.
func bounded(text string) string {
	const limit = 200 // bytes
	text = oneLine(text)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// oneLine turns control characters and runs of blanks into one blank each.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
