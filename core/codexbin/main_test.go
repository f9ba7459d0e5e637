package codexbin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain lets a copy of the test binary stand in for a Codex: one named
// codex plays what the folder beside it says.
//
//	codex          the copy
//	version        what --version prints
//	schema/        what generate-json-schema writes
//	runs           grows by a line with each run
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err == nil && filepath.Base(self) == "codex" {
		os.Exit(playCodex(filepath.Dir(self), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func playCodex(dir string, args []string) int {
	runs, err := os.OpenFile(filepath.Join(dir, "runs"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(runs, args, os.Environ())
	}
	switch {
	case err != nil:
	case len(args) == 1 && args[0] == "--version":
		var version []byte
		version, err = os.ReadFile(filepath.Join(dir, "version"))
		fmt.Print(string(version))
	default:
		err = os.CopyFS(args[len(args)-1], os.DirFS(filepath.Join(dir, "schema")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "playing codex:", err)
		return 1
	}
	return 0
}
