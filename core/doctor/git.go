package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// minGit is the oldest git that can be kept from reading configuration files
// (GIT_CONFIG_GLOBAL, 2.32).
var minGit = [2]int{2, 32}

// gitLimit bounds one run of git, which takes milliseconds.
const gitLimit = 2 * time.Second

// git looks at git itself and at the folder that a session would work in. The
// latter can be another one in the end, so it only warns.
func (p *patient) git(ctx context.Context) outcome {
	path := onPath(p.Getenv("PATH"), "git")
	if path == "" {
		missing := finding(groupGit, "git", Failed, "git is not on PATH")
		missing.Remedy = "install git"
		return outcome{findings: []Finding{missing, notChecked(groupGit, "workspace", "git")}}
	}
	version, err := p.runGit(ctx, path, "version")
	if err != nil {
		broken := finding(groupGit, "git", Failed, fmt.Sprintf("%s does not run: %v", path, err))
		broken.Remedy = "reinstall git"
		return outcome{findings: []Finding{broken, notChecked(groupGit, "workspace", "git")}}
	}
	return outcome{findings: []Finding{judgeGit(version, path), p.workspace(ctx, path)}}
}

func judgeGit(answer, path string) Finding {
	f := finding(groupGit, "git", OK, fmt.Sprintf("%s at %s", strings.TrimPrefix(answer, "git "), path))
	var major, minor int
	_, err := fmt.Sscanf(answer, "git version %d.%d", &major, &minor)
	switch {
	case err != nil:
		f.Verdict, f.Reason = Warning, fmt.Sprintf("%s says %q, which is no version", path, answer)
	case major < minGit[0] || major == minGit[0] && minor < minGit[1]:
		f.Verdict = Failed
		f.Reason += ": it can't be kept from reading configuration"
	default:
		return f
	}
	f.Remedy = fmt.Sprintf("install git %d.%d or newer", minGit[0], minGit[1])
	return f
}

// workspace looks whether a session could work in the current folder.
func (p *patient) workspace(ctx context.Context, git string) Finding {
	top := repositoryOf(p.Cwd)
	if top == "" {
		f := finding(groupGit, "workspace", Warning, p.Cwd+" is not inside a git repository")
		f.Remedy = "run `git init` there, or name a workspace with --cwd"
		return f
	}
	commit, err := p.runGit(ctx, git, "rev-parse", "--verify", "--short", "HEAD^{commit}")
	if err != nil {
		f := finding(groupGit, "workspace", Warning, fmt.Sprintf("repository %s has no commit that git can read, so no agent can write there: %v", top, err))
		f.Remedy = "make a first commit"
		return f
	}
	return finding(groupGit, "workspace", OK, fmt.Sprintf("repository %s at commit %s", top, commit))
}

// repositoryOf returns the folder, dir itself or one above, that holds .git.
func repositoryOf(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// runGit runs git in the current folder with nobody's configuration and
// returns what it prints, trimmed.
func (p *patient) runGit(ctx context.Context, git string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Dir = p.Cwd
	cmd.Env = []string{
		"PATH=" + p.Getenv("PATH"), "HOME=/dev/null", "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
	}
	cmd.WaitDelay = 100 * time.Millisecond // for a grandchild that keeps the pipes
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return "", fmt.Errorf("%w: %s", err, text)
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// onPath looks a program up in the absolute folders of PATH.
func onPath(list, name string) string {
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}
