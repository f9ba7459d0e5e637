package spool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
)

// FuzzOpen gives Open a segment of any content: it must come up, take rows,
// and number them without a repeat.
func FuzzOpen(f *testing.F) {
	whole := `{"gen":1,"seq":1,"at":1,"direction":"received","message":{}}` + "\n"
	for _, seed := range []string{
		"", whole, whole[:20], whole + whole[:40], "\n\n", "{}\n", whole + "damaged\n" + whole,
		`{"gen":1,"seq":18446744073709551615,"at":1,"direction":"sent","message":1}` + "\n",
		`{"gen":2,"seq":1,"at":1,"direction":"received","message":{}}` + "\n",
		`{"gen":1,"seq":9,"at":1,"direction":"hole","message":{"reason":7}}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := folder(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "00000000000000000001-00000000000000000001.jsonl")
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, nil)
		begin(t, s, 1)
		added := add(t, s, `"new"`)
		r := s.Reader(spool.Position{})
		defer r.Close()
		var last spool.Position
		for {
			row, ok, err := r.TryNext()
			if err != nil {
				t.Fatalf("TryNext() = %v", err)
			}
			if !ok {
				break
			}
			if !last.Before(row.Position()) {
				t.Fatalf("row %v came after %v", row.Position(), last)
			}
			last = row.Position()
		}
		if last != added.Position() {
			t.Errorf("last row = %v, want the added one %v", last, added.Position())
		}
	})
}
