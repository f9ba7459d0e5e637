// Command fetchcodex puts the pinned Codex into the user's cache and prints
// the path of its native binary.
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
	pin, err := pinFor(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	cache, err := cacheDir(os.Getenv)
	if err != nil {
		return err
	}
	f := fetcher{pin: pin, base: cache, log: os.Stderr}
	path, err := f.fetch(ctx)
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}
