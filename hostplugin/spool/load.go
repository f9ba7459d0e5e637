package spool

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// load reads the folder: finds the segments, cuts torn tails, and notes how far
// each goes.
func (s *Spool) load() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("reading spool: %w", err)
	}
	for _, entry := range entries {
		seg, ok := parseName(entry.Name())
		if !ok {
			continue
		}
		if err := s.loadSegment(&seg); err != nil {
			return err
		}
		s.segments = append(s.segments, seg)
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return strings.Compare(a.name(), b.name()) })
	if n := len(s.segments); n > 0 {
		s.last = Position{s.segments[n-1].gen, s.segments[n-1].last}
	}
	return nil
}

// parseName takes a segment's name apart.
func parseName(name string) (segment, bool) {
	stem, ok := strings.CutSuffix(name, ".jsonl")
	if !ok || len(stem) != 41 || stem[20] != '-' {
		return segment{}, false
	}
	gen, err1 := strconv.ParseUint(stem[:20], 10, 64)
	first, err2 := strconv.ParseUint(stem[21:], 10, 64)
	if err1 != nil || err2 != nil || gen == 0 || first == 0 || first > 1<<62 {
		return segment{}, false
	}
	return segment{gen: gen, first: first, last: first - 1}, true
}

// loadSegment counts the whole lines, which are the rows first, first+1, …, and
// cuts what follows them.
func (s *Spool) loadSegment(seg *segment) error {
	file, err := openPrivate(filepath.Join(s.dir, seg.name()), os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("reading spool segment %s: %w", seg.name(), err)
			}
			if len(line) == 0 {
				return nil
			}
			s.torn = true
			return cut(file, seg)
		}
		seg.last++ // a damaged line keeps its number, so that readers see the gap
		seg.size += int64(len(line))
	}
}

func cut(file *os.File, seg *segment) error {
	if err := file.Truncate(seg.size); err != nil {
		return fmt.Errorf("cutting the torn tail of spool segment %s: %w", seg.name(), err)
	}
	return nil
}

// decodeLine reads back the row at a position; ok is false for a damaged line.
func decodeLine(line []byte, at Position) (row Row, ok bool) {
	if json.Unmarshal(line, &row) != nil {
		return Row{}, false
	}
	return row, row.Position() == at && row.Message != nil
}

// openPrivate opens a regular file of ours, 0600 at any umask, and refuses
// symlinks.
func openPrivate(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening spool file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("spool file %s is no regular file", path)
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = file.Chmod(0o600)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// privateFolder makes dir, or checks that it is a folder that only we can use.
func privateFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		return os.Chmod(dir, 0o700)
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making spool folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("checking spool folder: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("spool folder %s is not a private folder (mode %v); use a folder of mode 0700", dir, info.Mode())
	}
	return nil
}
