package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

const (
	gitDeadline  = 10 * time.Minute // for one git command, on top of the caller's context
	gitWaitDelay = 5 * time.Second  // for its pipes after its end
	maxListing   = 512 << 20        // bytes of a listing: some millions of paths
	maxStderr    = 4 << 10          // bytes of git's own words that go into an error
)

// settings are given to every git command in its environment, which beats any
// file. Names and meanings: git-config(1).
var settings = [][2]string{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.untrackedCache", "false"},
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	{"core.autocrlf", "false"},
	{"core.eol", "lf"},
	{"core.symlinks", "true"},
	{"core.fileMode", "true"},
	{"core.logAllRefUpdates", "false"},
	{"core.quotePath", "false"},
	{"submodule.recurse", "false"},
	{"safe.bareRepository", "explicit"},
	{"protocol.allow", "never"},
	{"gc.auto", "0"},
	{"maintenance.auto", "false"},
	{"credential.helper", ""},
}

// git runs git. Its fields are absolute paths.
type git struct {
	path string // the program
	home string // an empty private folder
}

// call is one git command.
type call struct {
	args     []string
	gitDir   string    // the private git folder or a worktree's registration
	workTree string    // the tree it may look at, also its folder; empty: none
	stdin    []byte    // nil: the null device
	stdout   io.Writer // nil: thrown away
	codes    []int     // exit codes other than 0 that are answers, not failures
	dotted   bool      // its paths begin with "./", which keeps them from being magic; it refuses literal pathspecs
}

// run is the only place where this package starts a program.
//
// Spec: R057 (standard input is the null device or the bytes of the call,
// never the terminal).
func (g *git) run(ctx context.Context, c call) error {
	ctx, cancel := context.WithTimeout(ctx, gitDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.path, c.args...)
	cmd.Env = g.environ(c)
	cmd.Dir = c.gitDir
	if c.workTree != "" {
		cmd.Dir = c.workTree
	}
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	said := &limited{left: maxStderr}
	cmd.Stdout, cmd.Stderr = c.stdout, said
	cmd.WaitDelay = gitWaitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		for _, code := range c.codes {
			if exit.ExitCode() == code {
				return nil
			}
		}
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("git %s: %w", c.args[0], cause)
	}
	return fmt.Errorf("git %s: %w: %s", c.args[0], err, strconv.QuoteToASCII(strings.TrimSpace(said.String())))
}

// environ is the whole environment of a git command.
func (g *git) environ(c call) []string {
	env := []string{
		"PATH=" + g.home, "HOME=" + g.home, "XDG_CONFIG_HOME=" + g.home,
		"LC_ALL=C", "TZ=UTC",
		"GIT_DIR=" + c.gitDir,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LFS_SKIP_SMUDGE=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_EDITOR=:", "GIT_ALLOW_PROTOCOL=none",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)),
	}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	if !c.dotted {
		env = append(env, "GIT_LITERAL_PATHSPECS=1")
	}
	if c.workTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.workTree)
	}
	return env
}

// output runs a command and returns what it prints, at most limit bytes.
func (g *git) output(ctx context.Context, limit int, c call) ([]byte, error) {
	out := &limited{left: limit, strict: true}
	c.stdout = out
	if err := g.run(ctx, c); err != nil {
		return nil, err
	}
	if out.over {
		return nil, fmt.Errorf("git %s: it printed more than %d bytes", c.args[0], limit)
	}
	return out.Bytes(), nil
}

// limited keeps the first bytes that it is given. A strict one refuses the
// rest, which ends the writer.
type limited struct {
	bytes.Buffer
	left   int
	strict bool
	over   bool
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	_, _ = l.Buffer.Write(kept)
	if len(kept) < len(p) {
		l.over = true
		if l.strict {
			return len(kept), io.ErrShortWrite
		}
	}
	return len(p), nil
}

// minimum is the oldest git that takes its configuration from the environment
// and no file (GIT_CONFIG_COUNT 2.31, GIT_CONFIG_GLOBAL 2.32).
var minimum = [2]int{2, 32}

// checkVersion refuses a git that would read configuration we can't switch off.
func (g *git) checkVersion(ctx context.Context) error {
	out, err := g.output(ctx, 1<<10, call{args: []string{"version"}, gitDir: g.home})
	if err != nil {
		return core.Errorf(core.KindOS, "running %s: %w", g.path, err).WithRemedy("install git 2.32 or later")
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil {
		return core.Errorf(core.KindOS, "%s does not tell its version: %q", g.path, out)
	}
	if major < minimum[0] || major == minimum[0] && minor < minimum[1] {
		return core.Errorf(core.KindOS, "%s is version %d.%d, which can't be kept from reading configuration", g.path, major, minor).
			WithRemedy("install git %d.%d or later", minimum[0], minimum[1])
	}
	return nil
}
