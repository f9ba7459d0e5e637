// Command mmo-bench measures codex-mmo on this machine, each figure beside the
// least that it could cost, measured in turns in the same run.
//
//	mmo-bench -binary bin/codex-mmo [-n 10] [-only team,cli,mcp,gateway,admission]
//
// Ratios are what counts: times depend on the machine. The team's figures come
// from sessions of the bundled offline profile on the pinned Codex.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// suites are what -only chooses from, in their order.
var suites = []struct {
	name    string
	measure func(ctx context.Context, env bench, n int) ([]figure, error)
}{
	{"team", measureTeam},
	{"cli", measureCLI},
	{"mcp", measureMCP},
	{"gateway", measureGateway},
	{"admission", measureAdmission},
}

// bench is what all suites share.
type bench struct {
	self   string // this program
	binary string // codex-mmo under measure
	codex  string // the pinned Codex, links resolved
	dir    string // private folder, absolute, short enough for sockets

	provider string // address that the gateway's provider listens on
	peers    string // other gateways to it, as NAME=URL with commas between
}

// environ is the environment of everything that is measured: clean folders,
// nothing of the user's own.
func (b bench) environ(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"HOME=" + filepath.Join(b.dir, "home"),
		"MMO_CONFIG_HOME=" + filepath.Join(b.dir, "config"),
		"MMO_STATE_HOME=" + b.state(),
		"MMO_RUNTIME_DIR=" + b.runtime(),
		"MMO_CODEX_BIN=" + b.codex,
	}, extra...)
}

func (b bench) state() string     { return filepath.Join(b.dir, "state") }
func (b bench) runtime() string   { return filepath.Join(b.dir, "r") }
func (b bench) workspace() string { return filepath.Join(b.dir, "workspace") }

func main() {
	if ok, err := runMode(os.Args[1:]); ok {
		exit(err)
	}
	binary := flag.String("binary", "bin/codex-mmo", "the codex-mmo to measure")
	n := flag.Int("n", 10, "how often each is measured; 10 is the least for a median to mean something")
	only := flag.String("only", "", "suites to run, with commas between; empty: all")
	provider := flag.String("provider", "127.0.0.1:0", "address of the provider that gateways are measured with")
	peers := flag.String("peers", "", "other gateways to that provider that run already, as NAME=URL with commas between")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binary, *n, *only, *provider, *peers)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "mmo-bench: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, binary string, n int, only, provider, peers string) (err error) {
	env, err := prepare(binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(env.dir)) }()
	env.provider, env.peers = provider, peers
	var figures []figure
	for _, suite := range suites {
		if only != "" && !slices.Contains(strings.Split(only, ","), suite.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", suite.name)
		found, err := suite.measure(ctx, env, n)
		figures = append(figures, found...)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", suite.name, err), print(os.Stdout, figures))
		}
	}
	return print(os.Stdout, figures)
}

// prepare finds the programs and makes clean folders.
func prepare(binary string) (env bench, err error) {
	if env.self, err = os.Executable(); err != nil {
		return env, err
	}
	if env.binary, err = filepath.Abs(binary); err != nil {
		return env, err
	}
	if _, err := os.Stat(env.binary); err != nil {
		return env, fmt.Errorf("%w; run `make build`", err)
	}
	cache, err := cacheDir()
	if err != nil {
		return env, err
	}
	if env.codex, err = filepath.EvalSymlinks(filepath.Join(cache, "codex-mmo", "codex", codexVersion, "codex")); err != nil {
		return env, fmt.Errorf("the pinned Codex: %w; run `make codex`", err)
	}
	base := filepath.Join(cache, "codex-mmo-bench") // not below a world-writable folder
	if err := os.MkdirAll(base, 0o700); err != nil {
		return env, err
	}
	if env.dir, err = os.MkdirTemp(base, ""); err != nil {
		return env, err
	}
	for _, name := range []string{"home", "config", "state", "r", "workspace", "floor"} {
		if err := os.Mkdir(filepath.Join(env.dir, name), 0o700); err != nil {
			return env, err
		}
	}
	if out, err := exec.Command("git", "init", "--quiet", env.workspace()).CombinedOutput(); err != nil {
		return env, fmt.Errorf("git init of the workspace: %w\n%s", err, out)
	}
	return env, nil
}

// codexVersion is the Codex that `make codex` fetches.
const codexVersion = "0.149.0"

func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache"), err
}

// alternate runs what is measured and its floor in turns, n times each, so
// that what else the machine does meets both.
func alternate(n int, measure, floor func() error) error {
	for range n {
		if err := errors.Join(measure(), floor()); err != nil {
			return err
		}
	}
	return nil
}
