package trace

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Bounds of a reading.
const (
	MaxPage   = 480 << 10 // bytes of one page's records
	MaxLimit  = 1000      // records of one page
	MaxChars  = 30_000    // code points of one part of a record
	malformed = 2000      // code points that are shown of a line that is no JSON
	maxRow    = 64 << 20  // bytes of a line that is read as JSON
)

// Window says which records are read.
type Window struct {
	Cursor   int // of the first record, counted from 0
	Limit    int // records; 0 means MaxLimit
	MaxBytes int // of all records together; 0 means MaxPage
}

// Page is some records of a trace, oldest first.
type Page struct {
	Records []json.RawMessage
	Next    int  // cursor of the record after them, which may not have come yet
	AtEnd   bool // there is none yet
}

// cut stands for a record that is too long for its page.
type cut struct {
	Truncated  bool   `json:"trace_record_truncated"`
	Cursor     int    `json:"record_cursor"`
	TotalChars int    `json:"total_chars"`
	RecordedAt string `json:"recorded_at,omitempty"`
	Direction  string `json:"direction,omitempty"`
	Method     string `json:"method,omitempty"`
}

// Read reads a page of the event log. A log that does not exist has no records.
// A record that is longer than the page may be is replaced by a stub which names
// it; a page has at least one record if there is one.
func Read(path string, w Window) (*Page, error) {
	if w.Limit == 0 {
		w.Limit = MaxLimit
	}
	if w.MaxBytes == 0 {
		w.MaxBytes = MaxPage
	}
	switch {
	case w.Limit < 1 || w.Limit > MaxLimit:
		return nil, core.Errorf(core.KindValue, "limit %d is out of range", w.Limit).WithRemedy("use 1 to %d", MaxLimit)
	case w.MaxBytes < 1000 || w.MaxBytes > MaxPage:
		return nil, core.Errorf(core.KindValue, "max_bytes %d is out of range", w.MaxBytes).WithRemedy("use 1000 to %d", MaxPage)
	}
	l, err := open(path, w.Cursor)
	if err != nil {
		return nil, err
	}
	defer l.close()
	page := &Page{Records: []json.RawMessage{}, Next: w.Cursor}
	for size := 0; len(page.Records) < w.Limit; page.Next++ {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			page.AtEnd = true
			break
		}
		if err != nil {
			return nil, err
		}
		record := filtered(line)
		if len(record) > w.MaxBytes {
			record = stub(record, page.Next)
		}
		if size += len(record); len(page.Records) > 0 && size > w.MaxBytes {
			break
		}
		page.Records = append(page.Records, record)
	}
	return page, nil
}

// Part is some characters of one record.
type Part struct {
	Content    string
	Next       *int // cursor of the next part; nil: this was the last
	TotalChars int
	SHA256     string // of the whole record as it is shown
}

// ReadRecord reads maxChars code points (0: MaxChars) of one record, from cursor
// on.
func ReadRecord(path string, record, cursor, maxChars int) (*Part, error) {
	if maxChars == 0 {
		maxChars = MaxChars
	}
	if maxChars < 1 || maxChars > MaxChars {
		return nil, core.Errorf(core.KindValue, "max_chars %d is out of range", maxChars).WithRemedy("use 1 to %d", MaxChars)
	}
	l, err := open(path, record)
	if err != nil {
		return nil, err
	}
	defer l.close()
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return nil, core.Errorf(core.KindValue, "record_cursor %d: the trace has %d records so far", record, record)
	}
	if err != nil {
		return nil, err
	}
	whole := filtered(line)
	runes := []rune(string(whole))
	if cursor < 0 || cursor > len(runes) {
		return nil, core.Errorf(core.KindValue, "cursor %d exceeds the record's %d characters", cursor, len(runes)).
			WithRemedy("begin with 0 and pass next_cursor on")
	}
	sum := sha256.Sum256(whole)
	part := &Part{TotalChars: len(runes), SHA256: hex.EncodeToString(sum[:])}
	end := min(cursor+maxChars, len(runes))
	part.Content = string(runes[cursor:end])
	if end < len(runes) {
		part.Next = &end
	}
	return part, nil
}

// lines reads whole lines of a log. One that is being written is not there yet.
type lines struct {
	file *os.File // nil: there is no log
	r    *bufio.Reader
}

// open opens a log before the line with that number.
func open(path string, number int) (*lines, error) {
	if number < 0 {
		return nil, core.Errorf(core.KindValue, "cursor %d is below 0", number)
	}
	f, err := store.OpenEvidence(path)
	l := &lines{file: f}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.file, l.r = nil, bufio.NewReader(strings.NewReader(""))
	case err != nil:
		return nil, err
	default:
		l.r = bufio.NewReaderSize(f, 64<<10)
	}
	for n := range number {
		switch _, err := l.read(0); {
		case errors.Is(err, io.EOF):
			l.close()
			return nil, core.Errorf(core.KindValue, "cursor %d: the trace has %d records so far", number, n).
				WithRemedy("begin with 0 and pass next_cursor on")
		case err != nil:
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *lines) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

func (l *lines) next() ([]byte, error) { return l.read(maxRow) }

// read returns at most limit bytes of the next line, whose end it goes to, or
// io.EOF.
func (l *lines) read(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part[:min(len(part), limit-len(line))]...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, core.Errorf(core.KindOS, "reading the event log: %w", err)
		}
	}
}

// stub is what a page has of a record that is too long for it.
func stub(record []byte, cursor int) json.RawMessage {
	var head struct {
		RecordedAt string `json:"recorded_at"`
		Direction  string `json:"direction"`
		Message    struct {
			Method string `json:"method"`
		} `json:"message"`
	}
	_ = json.Unmarshal(record, &head) // what can't be read is left out
	return encode(cut{
		Truncated: true, Cursor: cursor, TotalChars: utf8.RuneCount(record),
		RecordedAt: short(head.RecordedAt), Direction: short(head.Direction), Method: short(head.Message.Method),
	})
}

// short keeps the words of a stub from being long themselves.
func short(text string) string {
	if len(text) > 100 {
		return ""
	}
	return text
}

func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // plain values always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
