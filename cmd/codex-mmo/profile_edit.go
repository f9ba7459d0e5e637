package main

import (
	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

func (a *app) profileUseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "use ID",
		Short: "Choose the profile that is meant when none is named",
		Long: "use makes a profile the active one: that of `launch` and `exec` without a PROFILE. Sessions that exist keep\n" +
			"theirs. It changes one line of settings.toml and nothing else in it.",
		Example: "  codex-mmo profile use codex-harness-team && codex-mmo launch",
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !core.ValidID(args[0]) {
				return usagef("%q is not the id of a profile; see `codex-mmo profile list`", args[0])
			}
			p, err := a.profilePlace()
			if err != nil {
				return err
			}
			snap, err := profile.Compile(cmd.Context(), p.input(args[0]))
			if err != nil {
				return err
			}
			if err := profile.SetActive(p.config, args[0]); err != nil {
				return err
			}
			row := p.row(profile.Entry{ID: args[0], Origin: p.origin(args[0]), Description: snap.Description, Active: true, Agents: snap.Order, Snapshot: snap})
			if a.json {
				return a.printJSON(row)
			}
			a.printf("%s is the active profile\n", args[0])
			if lacks := p.lacks(row); lacks != "" {
				a.notice("here it is %s: it lacks %s", row.State, lacks)
			}
			return nil
		},
	}
}

func (a *app) profileCloneCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "clone SOURCE NEWID",
		Short: "Copy a profile into your configuration, to change it",
		Long: "clone copies a profile, a bundled one, one of your own or one by its path, into the folder profiles of your\n" +
			"configuration and gives the copy its own id. Nothing that is there is overwritten.",
		Example: "  codex-mmo profile clone adaptive-engineering mine\n" +
			"  $EDITOR ~/.config/codex-mmo/profiles/mine/profile.toml\n" +
			"  codex-mmo profile check mine && codex-mmo profile use mine",
		Args: exactArgs("SOURCE", "NEWID"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.profilePlace()
			if err != nil {
				return err
			}
			dir, err := profile.Clone(p.input(args[0]), args[1])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"id": args[1], "directory": dir})
			}
			a.printf("%s\n", dir)
			a.notice("edit it, then `codex-mmo profile check %s`", args[1])
			return nil
		},
	}
}
