package main_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestScripts runs what a person types at a shell: a story a file in
// testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(testkit.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		WorkdirRoot:         testkit.PrivateDir(t), // not below a world-writable folder
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			for name, dir := range map[string]string{"HOME": "home", "MMO_CONFIG_HOME": "config", "MMO_STATE_HOME": "state", "MMO_RUNTIME_DIR": "r"} {
				env.Setenv(name, filepath.Join(env.WorkDir, dir))
			}
			return os.Mkdir(filepath.Join(env.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"mistyped": mistyped, "plant": plant},
	})
}

// mistyped is the script command `mistyped ARG...`: it runs codex-mmo and wants
// exit code 2, which is for wrong command lines.
func mistyped(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("codex-mmo", args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		ts.Fatalf("codex-mmo %q ended with %v, want exit code 2", args, err)
	}
}

// plant is the script command `plant SESSION STATUS [ERROR]`: it records a
// session; ERROR may hold the escapes of a Go string.
func plant(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: plant SESSION STATUS [ERROR]")
	}
	text := ""
	if len(args) > 2 {
		var err error
		text, err = strconv.Unquote(`"` + args[2] + `"`)
		ts.Check(err)
	}
	f := folders.Folders{Config: ts.Getenv("MMO_CONFIG_HOME"), State: ts.Getenv("MMO_STATE_HOME"), Runtime: ts.Getenv("MMO_RUNTIME_DIR")}
	ts.Check(f.Prepare())
	st, err := store.Open(context.Background(), f.Database(), nil)
	ts.Check(err)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	err = st.Update(context.Background(), func(tx *store.Tx) error {
		return tx.PutSession(&store.Session{
			SessionID: args[0], ProfileID: "demo", ProfileVersion: "1", Kind: "noninteractive", Workspace: "/src/project", RootAgent: "lead",
			Status: core.SessionStatus(args[1]), RunSequence: 1, CreatedAt: at, LastActiveAt: at, Error: text,
		})
	})
	ts.Check(errors.Join(err, st.Close()))
}
