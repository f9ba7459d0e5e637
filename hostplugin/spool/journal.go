package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// maxJournalBytes bounds what is read back of a journal; it gets a few hundred
// bytes per command.
const maxJournalBytes = 256 << 20

// Journal is an append-only file of JSON lines beside the segments. Nothing
// acknowledges it away.
type Journal struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenJournal opens the journal of that file name in the spool's folder and
// returns its lines. An unfinished last line is cut, damaged ones are left out.
// The spool's lock covers it.
func (s *Spool) OpenJournal(name string) (*Journal, []json.RawMessage, error) {
	file, err := openPrivate(filepath.Join(s.dir, name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxJournalBytes+1))
	if err == nil && len(data) > maxJournalBytes {
		err = errors.New("it is longer than 256 MiB")
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if err == nil {
		err = file.Truncate(int64(whole))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("opening journal %s: %w", name, err)
	}
	var lines []json.RawMessage
	for line := range bytes.Lines(data[:whole]) {
		if json.Valid(line) {
			lines = append(lines, json.RawMessage(bytes.TrimSpace(line)))
		}
	}
	return &Journal{file: file, size: int64(whole)}, lines, nil
}

// Append writes v as one line. It is in the page cache when Append returns, so
// it survives the death of this process.
func (j *Journal) Append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding journal line: %w", err)
	}
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(line, j.size); err != nil {
		_ = j.file.Truncate(j.size)
		return fmt.Errorf("writing journal: %w", err)
	}
	j.size += int64(len(line))
	return nil
}

// Close syncs and closes the journal.
func (j *Journal) Close() error { return errors.Join(j.file.Sync(), j.file.Close()) }
