// Command codex-mmo runs teams of coding agents: a root that leads and workers
// that it spawns through our MCP server, each a real Codex thread.
//
// main wires the packages together and holds no logic of its own: a file per
// verb, and the rules of output in output.go.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
)

// Exit codes, besides 0.
const (
	exitFailure   = 1   // the work failed, or the command could not do it
	exitUsage     = 2   // the command line is wrong
	exitDetached  = 3   // the session works on, and nobody waits for it any more
	exitCancelled = 130 // the session was cancelled, stopped, or the command interrupted
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{getenv: os.Getenv, in: os.Stdin, out: os.Stdout, err: os.Stderr}
	err := a.root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *exitError
	if errors.As(err, &exit) {
		if exit.err != nil {
			a.fail(exit.err)
		}
		return exit.code
	}
	a.fail(err)
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// exitError ends the command with a code of its own; err may be nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "exit"
	}
	return e.err.Error()
}

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{core.Errorf(core.KindValue, format, args...)}
}
