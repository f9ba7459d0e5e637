// Command fetchcodex puts pinned Codexes into the user's cache and prints the
// paths of their native binaries: the preferred one, those that are named by their
// version, or with the argument "all" every one.
//
// The package comes from npm, whose client checks it against the registry's
// digest. On the platforms in the table of pins the archive and the binary
// are checked against our own digests too. The folder appears under its final
// name only when everything was checked, so a run that is cut short leaves
// nothing that looks ready, and a second run returns at once:
//
//	<cache>/codex-mmo/codex/0.149.0/codex        link to the binary
//	<cache>/codex-mmo/codex/0.149.0/codex-dir/   bin/codex, codex-resources/bwrap, codex-path/rg
//	<cache>/codex-mmo/codex/0.149.0/checked      digest and size of the binary
//
// <cache> is $XDG_CACHE_HOME, or ~/.cache on every system.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fetchcodex: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cache, err := cacheDir(os.Getenv)
	if err != nil {
		return err
	}
	for _, version := range wanted(os.Args[1:]) {
		pin, err := pinFor(version, runtime.GOOS, runtime.GOARCH)
		if err != nil {
			return err
		}
		f := fetcher{pin: pin, base: cache, log: os.Stderr}
		path, err := f.fetch(ctx)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// wanted reads the versions that the arguments name.
func wanted(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{preferred}
	case len(args) == 1 && args[0] == "all":
		return versions
	}
	return args
}
