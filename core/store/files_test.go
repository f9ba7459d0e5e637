package store_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

func TestPublish(t *testing.T) {
	dir := testkit.PrivateDir(t)
	outside := filepath.Join(testkit.PrivateDir(t), "outside")
	if err := os.Symlink(outside, filepath.Join(dir, "result.md")); err != nil {
		t.Fatal(err)
	}
	for _, umask := range []int{0, 0o777} {
		old := syscall.Umask(umask)
		ref, err := store.Publish(dir, "result.md", []byte("hello"))
		syscall.Umask(old)
		if err != nil {
			t.Fatalf("Publish at umask %o: %v", umask, err)
		}
		want := store.FileRef{Name: "result.md", Size: 5, SHA256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}
		if diff := cmp.Diff(want, ref); diff != "" {
			t.Errorf("Publish (-want +got):\n%s", diff)
		}
		info, err := os.Lstat(filepath.Join(dir, "result.md"))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("at umask %o the file is %v, %v, want a regular file of mode 600", umask, info, err)
		}
		data, err := store.ReadPublished(dir, ref, 0)
		if err != nil || string(data) != "hello" {
			t.Errorf("ReadPublished = %q, %v", data, err)
		}
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("Publish followed a symbolic link")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v, want the file alone", entries, err)
	}
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", "../a", "a\x00b", strings.Repeat("a", 300)} {
		_, err := store.Publish(dir, name, nil)
		wantError(t, "Publish of "+name, err, core.KindValue, "can't be the name")
	}
	link := filepath.Join(filepath.Dir(outside), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	_, err := store.Publish(link, "a", nil)
	wantError(t, "Publish into a linked folder", err, core.KindOS, "opening folder")
}

// Spec: R110 (store half): what is not the file that was published is not read.
func TestReadPublishedRefuses(t *testing.T) {
	publish := func(t *testing.T) (string, string, store.FileRef) {
		dir := testkit.PrivateDir(t)
		ref, err := store.Publish(dir, "result.md", []byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, "result.md"), ref
	}
	do := func(t *testing.T, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  error
	}{
		"removed":  {func(t *testing.T, path string) { do(t, os.Remove(path)) }, store.ErrEvidenceMissing},
		"changed":  {func(t *testing.T, path string) { do(t, os.WriteFile(path, []byte("hellO"), 0o600)) }, store.ErrEvidenceDiffers},
		"shorter":  {func(t *testing.T, path string) { do(t, os.Truncate(path, 4)) }, store.ErrEvidenceDiffers},
		"longer":   {func(t *testing.T, path string) { do(t, os.WriteFile(path, []byte("hello you"), 0o600)) }, store.ErrEvidenceDiffers},
		"symlink":  {func(t *testing.T, path string) { do(t, os.Rename(path, path+"2"), os.Symlink(path+"2", path)) }, store.ErrEvidenceDiffers},
		"hardlink": {func(t *testing.T, path string) { do(t, os.Link(path, path+"2")) }, store.ErrEvidenceDiffers},
		"FIFO":     {func(t *testing.T, path string) { do(t, os.Remove(path), syscall.Mkfifo(path, 0o600)) }, store.ErrEvidenceDiffers},
		"folder":   {func(t *testing.T, path string) { do(t, os.Remove(path), os.Mkdir(path, 0o700)) }, store.ErrEvidenceDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path, ref := publish(t)
			tc.spoil(t, path)
			_, err := store.ReadPublished(dir, ref, 0)
			if !errors.Is(err, tc.want) || !errors.Is(err, store.ErrEvidence) || core.KindOf(err) != core.KindRuntime {
				t.Errorf("ReadPublished = %v, want %v", err, tc.want)
			}
		})
	}
	dir, _, ref := publish(t)
	_, err := store.ReadPublished(dir, ref, 4)
	wantError(t, "ReadPublished beyond its limit", err, core.KindValue, "more than the 4")
	for _, name := range []string{"", "../result.md", "/etc/hostname"} {
		_, err := store.ReadPublished(dir, store.FileRef{Name: name, Size: 1}, 0)
		wantError(t, "ReadPublished of "+name, err, core.KindRuntime, "evidence missing")
	}
}

// Spec: A064.
func TestStrictJSONFiles(t *testing.T) {
	dir := testkit.PrivateDir(t)
	path := filepath.Join(dir, "file.json")
	for name, text := range map[string]string{
		"NaN": `{"n":NaN}`, "Infinity": `{"n":Infinity}`, "overflow": `{"n":1e400}`, "duplicate": `{"n":1,"n":2}`,
		"surrogate": `{"s":"\ud800"}`, "trailing": `{"n":1}{}`, "unknown": `{"other":1}`, "empty": ``,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var v struct {
			N float64 `json:"n"`
			S string  `json:"s"`
		}
		wantError(t, "ReadJSON of "+name, store.ReadJSON(path, &v), core.KindValue, "file.json is not valid")
	}
	if err := store.WriteJSON(path, map[string]int{"n": 1}); err != nil {
		t.Fatalf("WriteJSON: %v", err)
	}
	wantError(t, "WriteJSON of NaN", store.WriteJSON(path, math.NaN()), core.KindValue, "file.json")
	var v map[string]int
	if err := store.ReadJSON(path, &v); err != nil || v["n"] != 1 {
		t.Errorf("ReadJSON after a refused write = %v, %v, want the former value", v, err)
	}
	log := openLog(t, filepath.Join(dir, "log.jsonl"))
	wantError(t, "Append of Inf", log.Append(math.Inf(1)), core.KindValue, "log.jsonl")
	if got := readFile(t, filepath.Join(dir, "log.jsonl")); len(got) != 0 || log.Size() != 0 {
		t.Errorf("a refused append wrote %q", got)
	}
	wantError(t, "WriteJSON of NaN to no file", store.WriteJSON(filepath.Join(dir, "fresh.json"), math.NaN()), core.KindValue, "fresh.json")
	wantError(t, "ReadJSON of no file", store.ReadJSON(filepath.Join(dir, "fresh.json"), &v), core.KindNotFound, "fresh.json")
	if err := os.Symlink(path, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	wantError(t, "ReadJSON of a link", store.ReadJSON(filepath.Join(dir, "link.json"), &v), core.KindOS, "link.json")
}

type eventRow struct {
	Seq  int    `json:"seq"`
	Text string `json:"text"`
}

func openLog(t *testing.T, path string) *store.Log {
	t.Helper()
	log, err := store.OpenLog(path)
	if err != nil {
		t.Fatalf("OpenLog: %v", err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// Spec: A063 (one writer)
func TestLog(t *testing.T) {
	path := filepath.Join(testkit.PrivateDir(t), "events.jsonl")
	log := openLog(t, path)
	var last eventRow
	if found, err := log.Last(&last); found || err != nil {
		t.Errorf("Last of an empty log = %t, %v", found, err)
	}
	if _, err := store.OpenLog(path); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "has a writer already") {
		t.Errorf("a second OpenLog = %v, want it refused", err)
	}
	long := strings.Repeat("long <text> ", 20000) // over several blocks
	for i, text := range []string{"one", long, "two\nlines"} {
		if err := log.Append(eventRow{i + 1, text}); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	wantError(t, "Append of NaN", log.Append(math.NaN()), core.KindValue, "events.jsonl")
	if err := errors.Join(log.Sync(), log.Close()); err != nil {
		t.Fatal(err)
	}
	whole := readFile(t, path)
	if want := `{"seq":3,"text":"two\nlines"}` + "\n"; !strings.HasSuffix(string(whole), want) {
		t.Errorf("the log ends %q, want %q", whole[len(whole)-60:], want)
	}

	// A crash in the middle of a write leaves a torn line.
	for _, torn := range []string{`{"seq":4,"te`, "\x00\x00\x00", long} {
		if err := os.WriteFile(path, append(whole[:len(whole):len(whole)], torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		log := openLog(t, path)
		if log.Size() != int64(len(whole)) {
			t.Errorf("Size after a torn line = %d, want %d", log.Size(), len(whole))
		}
		if found, err := log.Last(&last); !found || err != nil || last.Seq != 3 {
			t.Errorf("Last = %+v, %t, %v, want row 3", last, found, err)
		}
		if err := errors.Join(log.Append(eventRow{4, "next"}), log.Close()); err != nil {
			t.Fatal(err)
		}
		if got, want := string(readFile(t, path)), string(whole)+`{"seq":4,"text":"next"}`+"\n"; got != want {
			t.Errorf("the log after a torn line ends %q", got[len(got)-80:])
		}
	}
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil { // nothing but a torn line
		t.Fatal(err)
	}
	if log := openLog(t, path); log.Size() != 0 {
		t.Errorf("Size of a torn line alone = %d, want 0", log.Size())
	}
}

func TestLogRefusesForeignFiles(t *testing.T) {
	dir := testkit.PrivateDir(t)
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.Symlink(filepath.Join(dir, "target"), link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, dir} {
		if _, err := store.OpenLog(path); core.KindOf(err) != core.KindOS {
			t.Errorf("OpenLog(%s) = %v, want an OSError", path, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); err == nil {
		t.Error("a link was followed")
	}
}
