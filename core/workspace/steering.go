package workspace

import "regexp"

// These lists name what makes other programs do things: run commands on a
// push, a commit or on opening the folder, or tell an agent what to do. They
// are compared with folded names (see fold), at any depth, because tools look
// in every folder. Each entry is documented by its tool.

// steeringFolders flag everything below them.
var steeringFolders = set(
	".github", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".forgejo", ".gitea", ".tekton", ".teamcity",
	".husky", ".githooks", ".git-hooks",
	".codex", ".claude", ".agents", ".cursor", ".gemini", ".windsurf", ".continue", ".roo", ".kiro", ".clinerules", ".amazonq",
	".vscode", ".idea", ".zed", ".fleet", ".devcontainer",
	".cargo", ".mvn", ".yarn", ".bundle", ".direnv",
)

// steeringFiles are flagged by their own name.
var steeringFiles = set(
	"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "skill.md",
	".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".mcp.json", "mcp.json", "copilot-instructions.md",
	".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig",
	".envrc", ".direnvrc", ".mise.toml", "mise.toml", ".tool-versions",
	".travis.yml", ".drone.yml", ".appveyor.yml", "appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml",
	"jenkinsfile", "cloudbuild.yaml", "buildspec.yml", ".woodpecker.yml", ".cirrus.yml",
	".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", ".lefthook.yml", "lefthook-local.yml", ".huskyrc", ".overcommit.yml",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs",
	".devcontainer.json", ".vimrc", ".nvimrc", ".exrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".lldbinit",
)

// steeringPattern flags families of names.
var steeringPattern = regexp.MustCompile(`^(\.gitlab-ci.*|\.env(\..*)?|.*\.code-workspace)$`)

// hookNames are the hooks of githooks(5): core.hooksPath may make any folder
// the folder of hooks.
var hookNames = set(
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
	"commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
	"proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
	"post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
	"p4-post-changelist", "p4-pre-submit", "post-index-change",
)

var (
	// deviceName matches the names that Windows reserves, with any extension.
	deviceName = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)( *\..*)?$`)
	// shortName matches the 8.3 names that NTFS makes for longer ones.
	shortName = regexp.MustCompile(`^[^.~]{1,6}~[0-9]{1,6}(\.[^.]{0,3})?$`)
)

func set(names ...string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, name := range names {
		s[name] = true
	}
	return s
}
