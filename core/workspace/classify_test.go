package workspace_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestClassify reads as the rules do.
func TestClassify(t *testing.T) {
	t.Parallel()
	const file, exec, link, gitlink = 0o100644, 0o100755, 0o120000, 0o160000
	tests := []struct {
		name     string
		path     string
		from, to uint32
		target   string
		want     workspace.Class
	}{
		{"a file", "src/main.go", 0, file, "", workspace.Clean},
		{"a program", "run", 0, exec, "", workspace.Clean},
		{"a change of mode", "run", file, exec, "", workspace.Clean},
		{"a deletion", "src/main.go", file, 0, "", workspace.Clean},
		{"a leading dash", "-rf", 0, file, "", workspace.Clean},
		{"a glob", "*[a-z]?", 0, file, "", workspace.Clean},
		{"pathspec magic, which Windows takes for a stream", ":(top)x", 0, file, "", workspace.Flagged},
		{"not UTF-8", "non-utf8-\xff", 0, file, "", workspace.Clean},
		{"other letters", "grün/名", 0, file, "", workspace.Clean},
		{"decomposed letters", "gru\u0308n", 0, file, "", workspace.Clean},
		{"the longest name", strings.Repeat("n", 255), 0, file, "", workspace.Clean},

		{"nothing", "", 0, file, "", workspace.Refused},
		{"absolute", "/etc/passwd", 0, file, "", workspace.Refused},
		{"up", "../x", 0, file, "", workspace.Refused},
		{"up inside", "a/../../x", 0, file, "", workspace.Refused},
		{"here", "a/./x", 0, file, "", workspace.Refused},
		{"an empty name", "a//x", 0, file, "", workspace.Refused},
		{"a slash at the end", "a/", 0, file, "", workspace.Refused},
		{"up on Windows", `a\..\..\x`, 0, file, "", workspace.Refused},
		{"NUL", "a\x00b", 0, file, "", workspace.Refused},
		{"too long a name", strings.Repeat("n", 256), 0, file, "", workspace.Refused},
		{"too long a path", strings.Repeat("nnn/", 1100) + "n", 0, file, "", workspace.Refused},
		{"too deep", strings.Repeat("d/", 64) + "f", 0, file, "", workspace.Refused},

		{".git", ".git/config", 0, file, "", workspace.Refused},
		{".git as a file", ".git", 0, file, "", workspace.Refused},
		{".git below", "sub/.git/hooks/pre-commit", 0, exec, "", workspace.Refused},
		{".git in capitals", ".GIT/config", 0, file, "", workspace.Refused},
		{".git in some capitals", "sub/.giT/config", 0, file, "", workspace.Refused},
		{".git shortened by NTFS", "git~1/config", 0, file, "", workspace.Refused},
		{".git shortened again", "GIT~2", 0, file, "", workspace.Refused},
		{".git with a dot", ".git./config", 0, file, "", workspace.Refused},
		{".git with a space", ".git /config", 0, file, "", workspace.Refused},
		{".git with both", ".git . ./config", 0, file, "", workspace.Refused},
		{".git as a stream", ".git::$INDEX_ALLOCATION/config", 0, file, "", workspace.Refused},
		{".git with a zero-width joiner", ".g\u200cit/config", 0, file, "", workspace.Refused},
		{".git with a byte-order mark", "\ufeff.git/config", 0, file, "", workspace.Refused},
		{".git with a mark of direction", ".gi\u202et/config", 0, file, "", workspace.Refused},
		{".git after a backslash", `sub\.git\config`, 0, file, "", workspace.Refused},
		{"not .git", ".gitt/config", 0, file, "", workspace.Clean},
		{"not .git either", "git/config", 0, file, "", workspace.Clean},

		{"a nested repository", "nested", 0, gitlink, "", workspace.Refused},
		{"a submodule gone", "module", gitlink, 0, "", workspace.Refused},
		{"a submodule becomes a file", "module", gitlink, file, "", workspace.Refused},
		{"setuid", "su", 0, 0o104755, "", workspace.Refused},
		{"writable by all", "w", 0, 0o100666, "", workspace.Refused},
		{"a folder", "d", 0, 0o40000, "", workspace.Refused},
		{"a device", "d", 0, 0o60644, "", workspace.Refused},
		{"no change", "d", 0, 0, "", workspace.Refused},

		{"a link beside", "l", 0, link, "src/main.go", workspace.Clean},
		{"a link up within", "a/b/l", 0, link, "../../c", workspace.Clean},
		{"a link to here", "l", 0, link, ".", workspace.Clean},
		{"a link gone", "l", link, 0, "", workspace.Clean},
		{"a link becomes a file", "l", link, file, "", workspace.Clean},
		{"an absolute link", "l", 0, link, "/etc/passwd", workspace.Refused},
		{"a link out", "l", 0, link, "..", workspace.Refused},
		{"a link out from below", "a/l", 0, link, "../../x", workspace.Refused},
		{"a link up after a name", "l", 0, link, "a/../../x", workspace.Refused},
		{"a link up after a name that may be a link", "l", 0, link, "dot/../x", workspace.Refused},
		{"a link into .git", "l", 0, link, ".git/hooks", workspace.Refused},
		{"a link into .GIT", "a/l", 0, link, "../.GIT", workspace.Refused},
		{"a link to a drive", "l", 0, link, `C:\x`, workspace.Refused},
		{"a link out on Windows", "l", 0, link, `..\x`, workspace.Refused},
		{"a link to nothing", "l", 0, link, "", workspace.Refused},
		{"a link with NUL", "l", 0, link, "a\x00b", workspace.Refused},
		{"too long a link", "l", 0, link, strings.Repeat("a/", 2100), workspace.Refused},
		{".gitattributes as a link", ".gitattributes", 0, link, "x", workspace.Refused},
		{".gitmodules as a link", "sub/.GitModules", 0, link, "x", workspace.Refused},
		{"a link whose target shows nothing", "l", 0, link, "a\u202eb", workspace.Flagged},

		{"a workflow", ".github/workflows/ci.yml", 0, file, "", workspace.Flagged},
		{"a workflow gone", ".github/workflows/ci.yml", file, 0, "", workspace.Flagged},
		{"a workflow in capitals", ".GitHub/workflows/ci.yml", 0, file, "", workspace.Flagged},
		{"GitLab", ".gitlab-ci.yml", 0, file, "", workspace.Flagged},
		{"GitLab, included", ".gitlab-ci/build.yml", 0, file, "", workspace.Clean},
		{"a hook", ".husky/pre-commit", 0, exec, "", workspace.Flagged},
		{"a hook anywhere", "tools/hooks/pre-commit", 0, exec, "", workspace.Flagged},
		{"instructions", "AGENTS.md", 0, file, "", workspace.Flagged},
		{"instructions below", "sub/agents.md", 0, file, "", workspace.Flagged},
		{"Codex", ".codex/config.toml", 0, file, "", workspace.Flagged},
		{"Claude", ".claude/settings.json", 0, file, "", workspace.Flagged},
		{"MCP", ".mcp.json", 0, file, "", workspace.Flagged},
		{"attributes", "sub/.gitattributes", 0, file, "", workspace.Flagged},
		{"submodules", ".gitmodules", 0, file, "", workspace.Flagged},
		{"direnv", ".envrc", 0, file, "", workspace.Flagged},
		{"an environment", ".env.local", 0, file, "", workspace.Flagged},
		{"an editor", ".vscode/tasks.json", 0, file, "", workspace.Flagged},
		{"a hidden variant", ".vs\u200bcode/tasks.json", 0, file, "", workspace.Flagged},
		{"a stream of it", ".github:x/y", 0, file, "", workspace.Flagged},
		{"a newline", "a\nb", 0, file, "", workspace.Flagged},
		{"an escape", "a\x1b[31m", 0, file, "", workspace.Flagged},
		{"a mark of direction", "gp\u202ej.exe", 0, file, "", workspace.Flagged},
		{"a device", "con.txt", 0, file, "", workspace.Flagged},
		{"a device with a dot", "con.", 0, file, "", workspace.Flagged},
		{"not a device", "console.txt", 0, file, "", workspace.Clean},
		{"a short name", "GITHUB~1/x", 0, file, "", workspace.Flagged},
		{"a backslash", `a\b`, 0, file, "", workspace.Flagged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, reason := workspace.Classify([]byte(tt.path), tt.from, tt.to, []byte(tt.target))
			if got != tt.want || (reason == "") != (got == workspace.Clean) {
				t.Errorf("Classify(%q, %o, %o, %q) = %s (%s), want %s", tt.path, tt.from, tt.to, tt.target, got, reason, tt.want)
			}
		})
	}
}

// FuzzClassify holds what must never be clean, whatever the spelling.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"a/b", "../x", ".git/x", ".G\u200cIT", "a/\xff/.git", "git~1", "a\\..\\b", ".git . :x"} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, path, target []byte) {
		class, _ := workspace.Classify(path, 0, 0o100644, nil)
		for name := range strings.SplitSeq(string(path), "/") {
			if (name == ".." || name == "" || strings.EqualFold(strings.TrimRight(name, ". "), ".git")) && class != workspace.Refused {
				t.Errorf("Classify(%q) = %s, want refused", path, class)
			}
		}
		if class, _ := workspace.Classify([]byte("l"), 0, 0o120000, target); class != workspace.Refused {
			if strings.HasPrefix(string(target), "/") || strings.Contains("/"+string(target)+"/", "/../") {
				t.Errorf("Classify(l -> %q) = %s, want refused", target, class)
			}
		}
	})
}
