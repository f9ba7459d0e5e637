package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "two words", "two words"},
		{"lines and tabs stay", "a\n\tb\n", "a\n\tb\n"},
		{"colours", "\x1b[31mred\x1b[0m", "[31mred[0m"},
		{"window title", "\x1b]0;owned\x07", "]0;owned"},
		{"one-byte control sequence", "\u009b2J", "2J"},
		{"overwriting a line", "rm -rf /\rls", "rm -rf /ls"},
		{"line ends of DOS", "a\r\nb", "a\nb"},
		{"backspaces and delete", "abc\b\b\b\x7fx", "abcx"},
		{"words turned round", "user\u202e\u2066 nimda\u2069\u202c", "user nimda"},
		{"marks of direction", "a\u200eb\u200fc\u061cd", "abcd"},
		{"invisible letters", "pass\u200bword\ufeff\U000e0041", "password"},
		{"other line ends", "a\u2028b\u2029c", "a\nb\nc"},
		{"joined emoji and scripts", "👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"},
		{"broken bytes", "a\xff\xfeb", "a\ufffd\ufffdb"},
		{"nothing", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := clean(test.in); got != test.want {
				t.Errorf("clean(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	tests := []struct {
		in    string
		limit int
		want  string
	}{
		{"  a\n\n b\tc ", 10, "a b c"},
		{"four", 4, "four"},
		{"fives", 4, "five…"},
		{"äöüßé", 4, "äöüß…"},
		{"\x1b[2J\u202eab", 10, "[2Jab"},
		{"", 4, ""},
	}
	for _, test := range tests {
		if got := oneLine(test.in, test.limit); got != test.want {
			t.Errorf("oneLine(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	tests := []struct {
		in   []string
		want string
	}{
		{[]string{"one\ntwo"}, "one"},
		{[]string{"", "\n\n  second text\nmore"}, "second text"},
		{[]string{"\x1b\n\u202e\nwords"}, "words"},
		{[]string{strings.Repeat("x", noteRunes+1)}, strings.Repeat("x", noteRunes) + "…"},
		{[]string{"", " \n"}, ""},
		{nil, ""},
	}
	for _, test := range tests {
		if got := firstLine(test.in...); got != test.want {
			t.Errorf("firstLine(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

// TestOutputIsSafe: what is hostile reaches neither stderr nor a table, and a
// pipe gets every byte.
func TestOutputIsSafe(t *testing.T) {
	const hostile = "\x1b[2J\u202egone\nnext"
	var out, err bytes.Buffer
	a := &app{out: &out, err: &err}

	a.notice("it failed: %s", hostile)
	if got, want := err.String(), "it failed: [2Jgone\nnext\n"; got != want {
		t.Errorf("notice wrote %q, want %q", got, want)
	}
	a.printf("%s\n", hostile)
	if got, want := out.String(), hostile+"\n"; got != want {
		t.Errorf("printf wrote %q to a pipe, want %q", got, want)
	}
	out.Reset()
	a.table([]string{"A", "B"}, [][]string{{hostile, "x\ty"}})
	if got, want := out.String(), "A             B\n[2Jgone next  x y\n"; got != want {
		t.Errorf("table wrote %q, want %q", got, want)
	}
	out.Reset()
	if err := a.printJSON(map[string]string{"text": hostile}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "{\n  \"text\": \"\\u001b[2J\u202egone\\nnext\"\n}\n"; got != want {
		t.Errorf("printJSON wrote %q, want %q", got, want)
	}
}

// TestIsTerminal: files and pipes are none; /dev/null stands for the character
// devices.
func TestIsTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for name, test := range map[string]struct {
		out  *os.File
		want bool
	}{"file": {file, false}, "pipe": {write, false}, "device": {device, true}} {
		if got := isTerminal(test.out); got != test.want {
			t.Errorf("isTerminal(%s) = %v, want %v", name, got, test.want)
		}
	}
	if isTerminal(&bytes.Buffer{}) {
		t.Error("isTerminal(buffer) = true, want false")
	}
}
