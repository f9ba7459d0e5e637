// Command testrun runs `go test` in the given modules and reports for people:
// the output of what failed, the time of each suite beside the budget of the
// whole, and as the last line how many tests passed and failed.
//
//	testrun [-budget DURATION] MODULE... -- [flag of go test...]
//
// Tests and subtests are counted alike. A package that can't be built counts
// as one failure. The exit status is 0 when every go test ended well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	budget := flag.Duration("budget", 30*time.Minute, "what all suites together may take")
	flag.Parse()
	modules, flags := flag.Args(), []string(nil)
	if i := slices.Index(modules, "--"); i >= 0 {
		modules, flags = modules[:i], modules[i+1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	report := newReport(os.Stdout)
	start := time.Now()
	var errs []error
	for _, module := range modules {
		errs = append(errs, run(ctx, module, flags, report))
	}
	stop()
	report.summary(time.Since(start), *budget)
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tests all packages of one module.
func run(ctx context.Context, module string, flags []string, report *report) error {
	args := append([]string{"-C", module, "test", "-json"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./...")...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := report.read(events)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, events) // the events are lost, the verdict is not
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return fmt.Errorf("tests of module %s: %w", module, err)
	}
	return nil
}
