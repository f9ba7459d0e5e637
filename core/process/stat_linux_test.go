package process

import (
	"strconv"
	"testing"
)

// FuzzParseStat feeds what a process may call itself: the fields behind the
// command must come out as they are.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte("sh"))
	f.Add([]byte(") Z 1 2 3 ("))
	f.Add([]byte("a\nb) ("))
	f.Add([]byte{0xff, ')', 0})
	f.Fuzz(func(t *testing.T, command []byte) {
		raw := "42 (" + string(command) + ") S 7 8 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 123456789012 1 1\n"
		e, err := parseStat([]byte(raw))
		if err != nil {
			t.Fatalf("parseStat(%q) = %v", raw, err)
		}
		if e.PID != 42 || e.PPID != 7 || e.PGID != 8 || e.SID != 9 || e.State != 'S' || e.StartToken != "123456789012" {
			t.Errorf("parseStat(%q) = %+v", raw, e)
		}
	})
}

func TestParseStatRefusesBrokenRows(t *testing.T) {
	for i, raw := range []string{"", "42", "42 (sh", "42 (sh) S 1 2", "x (sh) S 7 8 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12 1 1", "42 (sh) S 7 8 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 -12 1 1"} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if e, err := parseStat([]byte(raw)); err == nil {
				t.Errorf("parseStat(%q) = %+v, want an error", raw, e)
			}
		})
	}
}

func TestMarkBelongs(t *testing.T) {
	tests := []struct {
		mark, owner string
		want        bool
	}{
		{"ar_1/2", "ar_1", true},
		{"ar_1/2", "ar_1/", true},
		{"ar_1/2", "ar_1/2", true},
		{"ar_1", "ar_1", true},
		{"ar_12/2", "ar_1", false},
		{"ar_1/22", "ar_1/2", false},
		{"ar_1/2", "", false},
		{"ar_1/2", "/", false},
		{"", "ar_1", false},
	}
	for _, tt := range tests {
		if got := markBelongs(tt.mark, tt.owner); got != tt.want {
			t.Errorf("markBelongs(%q, %q) = %v, want %v", tt.mark, tt.owner, got, tt.want)
		}
	}
}
