package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/profiles"
)

func (a *app) profileCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "List, show, choose, copy and check teams",
		Long: "A profile is a folder that names a team: its agents, their models, rights and limits. Bundled ones come with\n" +
			"this build; your own lie in the folder profiles of your configuration (~/.config/codex-mmo) and come before\n" +
			"bundled ones of the same id. Wherever a PROFILE is asked for, an id or the path of a folder will do.\n\n" +
			"A session compiles its profile once, into a snapshot that never changes; edits reach new sessions only.",
		Example: "  codex-mmo profile list                          # which there are, and what each lacks here\n" +
			"  codex-mmo profile show codex-harness-team       # who is in it\n" +
			"  codex-mmo profile use codex-harness-team        # the one that is meant when none is named\n" +
			"  codex-mmo profile clone codex-harness-team mine # a copy to change\n" +
			"  codex-mmo profile check mine                    # all that is wrong with it",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q: see `codex-mmo profile --help`", "profile "+args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.profileListCmd(), a.profileShowCmd(), a.profileUseCmd(), a.profileCloneCmd(), a.profileCheckCmd(), a.profileSchemaCmd())
	return cmd
}

// profilePlace is where profiles are looked for, and what decides about their
// routes.
type profilePlace struct {
	config    string // the user's configuration
	keys      *profile.Credentials
	keysError error  // why credentials.env can't be used; keys are those of the environment then
	loginHome string // the operator's own CODEX_HOME; empty: nowhere
	loggedIn  bool
}

// profilePlace looks at the user's configuration.
func (a *app) profilePlace() (*profilePlace, error) {
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	p := &profilePlace{config: f.Config, loginHome: codexhome.OperatorHome(a.getenv), loggedIn: codexhome.LoggedIn(a.getenv)}
	if p.keys, p.keysError = profile.LoadCredentials(f.Config, a.getenv); p.keysError != nil {
		a.notice("codex-mmo: %s", p.keysError)
		p.keys = profile.EnvCredentials(a.getenv)
	}
	return p, nil
}

func (p *profilePlace) input(name string) *profile.CompileInput {
	return &profile.CompileInput{Name: name, Bundled: profiles.FS, ConfigDir: p.config}
}

// origin says where a profile comes from: its folder, or that it is bundled.
func (p *profilePlace) origin(name string) string {
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return name
	}
	own := filepath.Join(p.config, "profiles", name)
	if _, err := os.Lstat(own); err == nil {
		return own
	}
	return "bundled"
}

// named returns the profile that the arguments name, or the active one.
func (p *profilePlace) named(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	settings, err := profile.LoadSettings(p.config)
	if err != nil {
		return "", err
	}
	if settings.Profile == "" {
		return "", core.Errorf(core.KindValue, "no profile was named, and none is active").
			WithRemedy("name one, or choose one with `codex-mmo profile use PROFILE`; `codex-mmo profile list` shows them")
	}
	return settings.Profile, nil
}
