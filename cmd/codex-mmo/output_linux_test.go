package main

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTerminalIsNotSteered: on a real terminal also plain text is cleaned.
func TestTerminalIsNotSteered(t *testing.T) {
	screen, stdout := terminal(t)
	a := &app{out: stdout}
	a.printf("%s|\n", "\x1b]0;owned\x07\x1b[2J\u202eresult")
	buf := make([]byte, 256)
	n, err := screen.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(buf[:n]), "]0;owned[2Jresult|\r\n"; got != want { // the line discipline adds the \r
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

// terminal opens a terminal and returns its two ends: what a screen would show,
// and what a process has as stdout.
func terminal(t *testing.T) (screen, stdout *os.File) {
	t.Helper()
	open := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	screen = open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return screen, open(fmt.Sprintf("/dev/pts/%d", n))
}
