package codexhome

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/folders"
)

// keys are where programs keep secrets of their user, below HOME.
var keys = []string{
	".ssh", ".gnupg", ".netrc", ".git-credentials", ".aws", ".azure", ".kube",
	".config/gcloud", ".config/gh", ".config/git/credentials", ".docker/config.json",
}

// Closed lists what no command of a model may read, for Spec.Deny: our state,
// which holds capabilities, homes and evidence, our configuration with its
// credentials, our sockets, the operator's own Codex with its login, and the keys
// of other programs. The private git folders and the worktrees stay open: writers
// work there.
func Closed(f folders.Folders, getenv func(string) string) []string {
	list := []string{f.Config, f.Runtime}
	for _, name := range []string{"sessions", "jobs", "gateways", "snapshots", "codex", "state.db", "state.db-wal", "state.db-shm"} {
		list = append(list, filepath.Join(f.State, name))
	}
	if dir := OperatorHome(getenv); dir != "" {
		list = append(list, dir)
	}
	return append(list, OperatorKeys(getenv)...)
}

// OperatorHome is the operator's own CODEX_HOME, where a ChatGPT login is; empty
// when the environment does not tell.
func OperatorHome(getenv func(string) string) string {
	if dir := getenv("CODEX_HOME"); dir != "" {
		return resolved(dir)
	}
	if home := getenv("HOME"); home != "" {
		return resolved(filepath.Join(home, ".codex"))
	}
	return ""
}

// LoggedIn reports whether the operator has a ChatGPT login that homes can
// share.
func LoggedIn(getenv func(string) string) bool {
	dir := OperatorHome(getenv)
	if dir == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(dir, "auth.json"))
	return err == nil && info.Mode().IsRegular()
}

// OperatorKeys lists the files and folders below HOME that are there and hold
// secrets of other programs.
func OperatorKeys(getenv func(string) string) []string {
	home := getenv("HOME")
	if home == "" {
		return nil
	}
	var list []string
	for _, name := range keys {
		path := filepath.Join(home, filepath.FromSlash(name))
		if _, err := os.Stat(path); err == nil {
			list = append(list, resolved(path))
		}
	}
	return list
}

// resolved is a path without links: what is closed is what they lead to.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// outermost drops the paths that lie below another one: they are denied with
// it, and a denied path inside a denied folder makes every sandboxed command of
// Codex 0.149.0 fail.
func outermost(paths []string) []string {
	var kept []string
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if !slices.ContainsFunc(kept, func(outer string) bool { return path == outer || strings.HasPrefix(path, outer+"/") }) {
			kept = append(kept, path)
		}
	}
	return kept
}
