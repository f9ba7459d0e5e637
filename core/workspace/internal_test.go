package workspace

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzParseChanges: whatever git prints is taken as bytes or refused.
//
// Spec: A059.
func FuzzParseChanges(f *testing.F) {
	id := strings.Repeat("0", 40)
	for _, path := range []string{"a", "non-utf8-\xff", "a\nb", "a\tb", " "} {
		f.Add([]byte(":100644 100755 " + id + " " + id + " M\x00" + path + "\x00"))
	}
	f.Add([]byte(":100644 000000 " + id + "\x00"))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		changes, err := parseChanges(out)
		if err != nil {
			return
		}
		var want []string
		for i, record := range slices.Collect(records(out)) {
			if i%2 == 1 {
				want = append(want, string(record))
			}
		}
		slices.Sort(want)
		var got []string
		for _, c := range changes {
			got = append(got, c.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("parseChanges(%q) has the paths %q, want %q", out, got, want)
		}
	})
}

// TestNonUTF8Paths: the bytes that git prints are the path.
//
// Spec: A059.
func TestNonUTF8Paths(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("1", 40)
	changes, err := parseChanges([]byte(":100644 100644 " + id + " " + id + " M\x00non-utf8-\xff\x00"))
	if err != nil || len(changes) != 1 || changes[0].Path != "non-utf8-\xff" {
		t.Errorf("parseChanges = %v, %v, want one change of non-utf8-\\xff", changes, err)
	}
}

// TestSnapshotUnchanged: only a file that looks the same, and was not made in
// the last tick, need not be read.
func TestSnapshotUnchanged(t *testing.T) {
	t.Parallel()
	stat := func(ctime, mtime, size int64) unix.Stat_t {
		return unix.Stat_t{
			Mode: unix.S_IFREG | 0o644, Ino: 7, Size: size,
			Ctim: unix.NsecToTimespec(ctime), Mtim: unix.NsecToTimespec(mtime),
		}
	}
	const second = 1_000_000_000
	s := &snapshot{stamps: map[string]stamp{"early": stampOf(stat(second, 5, 3)), "late": stampOf(stat(2*second, 5, 3))}, latest: 2 * second}
	tests := []struct {
		name, path string
		stat       unix.Stat_t
		want       bool
	}{
		{"the same", "early", stat(second, 5, 3), true},
		{"made in the last tick", "late", stat(2*second, 5, 3), false},
		{"another change time", "early", stat(second+1, 5, 3), false},
		{"another modification time", "early", stat(second, 6, 3), false},
		{"another size", "early", stat(second, 5, 4), false},
		{"unknown", "new", stat(second, 5, 3), false},
	}
	for _, tt := range tests {
		if got := s.unchanged(file{path: tt.path, stat: tt.stat}); got != tt.want {
			t.Errorf("%s: unchanged = %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestQuoteC: any name of a folder fits into the alternates file.
func TestQuoteC(t *testing.T) {
	t.Parallel()
	if got, want := quoteC("a \"b\\\n\xff"), `"a \"b\\\012\377"`; got != want {
		t.Errorf("quoteC = %s, want %s", got, want)
	}
}
