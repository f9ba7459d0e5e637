package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A snapshot is what stat(2) said of each file when a worktree was made. A file
// of which it still says the same need not be read again: its change time can't
// be set back, and a change in the same tick of the clock is accounted for (see
// unchanged). It lies with the registration, out of the worker's reach:
//
//	<mode, octal> <size> <mtime, ns> <ctime, ns> <inode> <path>NUL
type snapshot struct {
	stamps map[string]stamp // path -> what was seen
	latest int64            // the last change time in it, nanoseconds
}

type stamp struct {
	mode         uint32
	size         int64
	mtime, ctime int64 // nanoseconds
	inode        uint64
}

const snapshotName = "mmo-snapshot"

// tick is more than the longest step of a kernel's file time (10 ms at 100 Hz).
const tick = 20_000_000 // nanoseconds

func stampOf(st unix.Stat_t) stamp {
	return stamp{
		mode: uint32(st.Mode), size: st.Size, mtime: unix.TimespecToNsec(st.Mtim),
		ctime: unix.TimespecToNsec(st.Ctim), inode: st.Ino,
	}
}

// takeSnapshot looks at a fresh checkout of base and publishes what it saw.
func (r *Repo) takeSnapshot(ctx context.Context, dir string, base *item) error {
	t, err := openTree(dir)
	if err != nil {
		return err
	}
	defer t.close()
	var b bytes.Buffer
	w := &walker{repo: r, dir: dir, tree: t, visit: func(f file) error {
		if f.mode == modeFile || f.mode == modeExec {
			s := stampOf(f.stat)
			fmt.Fprintf(&b, "%o %d %d %d %d %s\x00", s.mode, s.size, s.mtime, s.ctime, s.inode, f.path)
		}
		return nil
	}}
	if err := w.walk(ctx, base); err != nil {
		return err
	}
	return publish(filepath.Join(r.registration(dir), snapshotName), b.Bytes())
}

// readSnapshot reads a snapshot back. One that is not there holds nothing:
// every file is read then.
func (r *Repo) readSnapshot(dir string) (*snapshot, error) {
	s := &snapshot{stamps: map[string]stamp{}}
	data, err := os.ReadFile(filepath.Join(r.registration(dir), snapshotName))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	for record := range records(data) {
		fields := bytes.SplitN(record, []byte(" "), 6)
		if len(fields) != 6 {
			return nil, fmt.Errorf("the snapshot of worktree %s is damaged", dir)
		}
		var n [5]int64
		for i := range n {
			base := 10
			if i == 0 {
				base = 8
			}
			if n[i], err = strconv.ParseInt(string(fields[i]), base, 64); err != nil {
				return nil, fmt.Errorf("the snapshot of worktree %s is damaged: %w", dir, err)
			}
		}
		s.stamps[string(fields[5])] = stamp{uint32(n[0]), n[1], n[2], n[3], uint64(n[4])}
		s.latest = max(s.latest, n[3])
	}
	return s, nil
}

// unchanged tells whether a file is surely the one that was checked out. It
// is not when it was made in the last tick before the snapshot ended, as a
// later change might bear the same time.
func (s *snapshot) unchanged(f file) bool {
	seen, ok := s.stamps[f.path]
	return ok && seen == stampOf(f.stat) && seen.ctime < s.latest-tick
}
