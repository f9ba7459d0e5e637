package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// demoPrompt is what the demo's root is asked.
const demoPrompt = "Have the files of this lighthouse checked, and let somebody write docs/LAMP.md: when is the lamp lit? Then tell me what was found and bring the file in."

func (a *app) demoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Watch a team at work: real Codex, scripted offline models, no key, no network",
		Long: "demo runs the bundled profile offline-demo in a throw-away workspace. Codex, its threads, tools, sandbox and\n" +
			"our processes are the real ones; only the models are scripted, so it costs nothing and needs no network.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
}

func (a *app) demo(ctx context.Context) error {
	f, err := a.folders()
	if err != nil {
		return err
	}
	workspace, err := a.demoWorkspace(ctx, f)
	if err != nil {
		return err
	}
	a.notice("A root (lead) and two workers, each a real Codex thread in its own process: a checker, whose model is")
	a.notice("spoken to over Anthropic Messages, and a writer, over Chat Completions, in a working tree of its own.")
	a.notice("The models are SCRIPTED: they are offline stand-ins that say what a script says, not real models.")
	a.notice("workspace: %s", workspace)
	a.notice("")
	out, err := a.exec(ctx, &sessionOptions{profile: "offline-demo", cwd: workspace}, demoPrompt, 0)
	if err != nil {
		return err
	}
	if a.json {
		return a.report(out)
	}
	view, err := a.status(ctx, f, out.Session.SessionID)
	if err != nil {
		return err
	}
	a.printf("\n== What the root reports (scripted) ==\n\n%s\n", out.Result)
	written, err := os.ReadFile(filepath.Join(workspace, "docs", "LAMP.md"))
	if err != nil {
		return core.Errorf(core.KindRuntime, "the demo's file is not in the workspace: %w", err)
	}
	a.printf("\n== What the writer made, now in the workspace (docs/LAMP.md) ==\n\n%s", written)
	a.printf("\n== Tokens by agent and route (counted by the scripted model; nothing was spent) ==\n\n")
	a.usageTable(view.Usage)
	a.printf("\n== Where the evidence lies ==\n\n")
	var rows [][]string
	for _, e := range view.Evidence {
		rows = append(rows, []string{e.State, e.Path})
	}
	a.table([]string{"STATE", "FILE"}, rows)
	a.printf("\nEach step, in order: %[1]s audit %[2]s\nThis again:          %[1]s status %[2]s\n", os.Args[0], view.SessionID)
	own, err := filepath.Abs(os.Args[0])
	if err != nil || filepath.Base(os.Args[0]) == os.Args[0] { // found on PATH
		own = os.Args[0]
	}
	a.printf("\n== Your first own session ==\n\n")
	a.printf("Run a team in a git repository of yours:\n\n    cd YOUR-REPOSITORY\n    %s exec PROFILE \"what to do\"\n\n", own)
	a.printf("PROFILE is a team that `%[1]s profile list` shows, with what it lacks here; `%[1]s profile clone`\nmakes a copy to change.\n", own)
	if out.ExitCode != 0 {
		return &exitError{code: out.ExitCode}
	}
	return nil
}

// demoReadme is the file that the demo's workers read.
const demoReadme = "# Lighthouse keeper's log\n\nA tiny project for the demo: one lamp, two keepers, three rules.\n\n" +
	"1. The lamp is lit at dusk.\n2. The log is written at dawn.\n3. Nobody touches the lens.\n"

// demoWorkspace makes the demo's git repository, one for each run: an
// earlier demo may still be at work in its own.
func (a *app) demoWorkspace(ctx context.Context, f folders.Folders) (string, error) {
	if err := f.Prepare(); err != nil {
		return "", err
	}
	all := filepath.Join(f.State, "demo")
	if err := folders.MakeDir(all); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(all, "workspace-")
	if err != nil {
		return "", core.Errorf(core.KindOS, "making the demo's workspace: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(demoReadme), 0o600); err != nil {
		return "", core.Errorf(core.KindOS, "writing the demo's workspace: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--template="},
		{"add", "README.md"},
		{"-c", "user.name=codex-mmo demo", "-c", "user.email=demo@example.org", "commit", "--quiet", "--message", "The log"},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = []string{"PATH=" + a.getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", core.Errorf(core.KindOS, "making the demo's workspace: git %s failed: %w: %s", args[0], err, out).WithRemedy("install git")
		}
	}
	return dir, nil
}
