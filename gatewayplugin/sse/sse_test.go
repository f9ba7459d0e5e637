package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/sse"
)

func read(t *testing.T, src io.Reader) ([]string, error) {
	t.Helper()
	var out []string
	r := sse.NewReader(src)
	for {
		e, err := r.Next()
		if err != nil {
			return out, err
		}
		out = append(out, e.Name+"|"+string(e.Data))
	}
}

// TestReader: all the forms that providers send, whole and byte by byte.
func TestReader(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
	}{
		{"plain", "event: a\ndata: 1\n\ndata: 2\n\n", []string{"a|1", "|2"}},
		{"CRLF", "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []string{"a|1", "|2"}},
		{"CR", "data: 1\r\rdata: 2\r\r", []string{"|1", "|2"}},
		{"several data lines", "data: {\ndata: }\n\n", []string{"|{\n}"}},
		{"no space", "data:1\n\n", []string{"|1"}},
		{"one space only is dropped", "data:  1\n\n", []string{"| 1"}},
		{"comments", ": keep\n\ndata: 1\n: x\n\n", []string{"|1"}},
		{"byte order mark", "\xef\xbb\xbfdata: 1\n\n", []string{"|1"}},
		{"no end", "data: 1\n\ndata: 2", []string{"|1", "|2"}},
		{"one newline at the end", "data: 1\n", []string{"|1"}},
		{"name without data", "event: a\n\ndata: 1\n\n", []string{"|1"}},
		{"empty data", "data\n\n", []string{"|"}},
		{"other fields", "id: 1\nretry: 2\nfoo: 3\ndata: 1\n\n", []string{"|1"}},
		{"characters", "data: wörld\n\n", []string{"|wörld"}},
		{"nothing", "", nil},
		{"long line", "data: " + strings.Repeat("x", 100_000) + "\n\n", []string{"|" + strings.Repeat("x", 100_000)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.stream),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.stream)),
			} {
				got, err := read(t, src)
				if err != io.EOF {
					t.Errorf("%s: ended with %v", name, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// TestReaderErrors: a source's error ends the stream, what it cut is dropped.
func TestReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	src := io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken))
	got, err := read(t, src)
	if !errors.Is(err, broken) || !cmp.Equal(got, []string{"|1"}) {
		t.Errorf("got %q, %v", got, err)
	}
	endless := io.MultiReader(strings.NewReader("data: "), endlessReader{})
	if _, err := read(t, endless); !errors.Is(err, sse.ErrTooLarge) {
		t.Errorf("an endless event: %v, want %v", err, sse.ErrTooLarge)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestReaderDoesNotWait: an event is there as soon as its blank line is, with
// CRLF too.
func TestReaderDoesNotWait(t *testing.T) {
	for _, event := range []string{"data: 1\n\n", "data: 1\r\n\r\n", "data: 1\r\r"} {
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, event) }()
		e, err := sse.NewReader(in).Next()
		if err != nil || string(e.Data) != "1" {
			t.Errorf("%q: %q, %v", event, e.Data, err)
		}
		_ = in.Close()
	}
}

// TestWriteLarge: events of all sizes are read back, and an error of any part
// is told.
func TestWriteLarge(t *testing.T) {
	for _, size := range []int{0, 1, 16 << 10, 16<<10 + 1, 1 << 20} {
		var buf bytes.Buffer
		data := strings.Repeat("x", size)
		if err := sse.Write(&buf, "n", []byte(data)); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, &buf); err != io.EOF || !cmp.Equal(got, []string{"n|" + data}) {
			t.Errorf("%d bytes: %d events, %v", size, len(got), err)
		}
	}
	broken := errors.New("broken")
	for parts := range 3 {
		if err := sse.Write(&breaking{left: parts, err: broken}, "n", make([]byte, 32<<10)); !errors.Is(err, broken) {
			t.Errorf("an error after %d writes: %v", parts, err)
		}
	}
}

// breaking takes some writes and refuses those that follow.
type breaking struct {
	left int
	err  error
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, b.err
	}
	return len(p), nil
}

// FuzzReader: nothing panics, and what is written is read back.
func FuzzReader(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: 1\r\n\r\n"), "name", []byte(`{"a":1}`))
	f.Add([]byte("\xef\xbb\xbfdata:x\rdata\n\n:"), "", []byte(`""`))
	f.Add([]byte("data: \xff\xfe\n\n"), "a", []byte{})
	f.Fuzz(func(t *testing.T, stream []byte, name string, data []byte) {
		whole, _ := read(t, bytes.NewReader(stream))
		split, _ := read(t, iotest.OneByteReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("the reader depends on how the stream is split: %s", diff)
		}
		if strings.ContainsAny(name, "\r\n") || bytes.ContainsAny(data, "\r\n") {
			return
		}
		var buf bytes.Buffer
		if err := sse.Write(&buf, name, data); err != nil {
			t.Fatal(err)
		}
		e, err := sse.NewReader(&buf).Next()
		if err != nil || e.Name != name || !bytes.Equal(e.Data, data) {
			t.Errorf("wrote %q %q, read %q %q, %v", name, data, e.Name, e.Data, err)
		}
	})
}
