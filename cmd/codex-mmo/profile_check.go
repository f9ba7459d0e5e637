package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// profileReport is what `profile check --json` prints of one profile.
type profileReport struct {
	Profile  string            `json:"profile"`
	From     string            `json:"from"`
	Problems []profile.Problem `json:"problems"`
	Warnings []profile.Problem `json:"warnings"`
}

// loginReport says how agents get the operator's ChatGPT login.
type loginReport struct {
	Path     string `json:"path"` // of auth.json; empty: nowhere
	LoggedIn bool   `json:"logged_in"`
	Mode     string `json:"auth_link_mode"`
	Used     bool   `json:"used"` // by one of the profiles
	Note     string `json:"note"`
}

func (a *app) profileCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check [PROFILE...]",
		Short: "Find everything that is wrong with profiles, at once",
		Long: "check reads the named profiles, or all there are, with the catalogue, the tool servers and the settings they\n" +
			"stand on, and prints a line for every problem and every warning:\n\n" +
			"  FILE:LINE: KEY: what is wrong; what would be right\n\n" +
			"It also says how agents get your ChatGPT login. It starts nothing and sends nothing.\n\n" +
			"Exit codes: 0 no problem (warnings count as nothing), 1 problems, 2 wrong command line.",
		Example: "  codex-mmo profile check\n" +
			"  codex-mmo profile check mine ./my-team\n" +
			"  codex-mmo profile check --json mine | jq '.profiles[].problems'",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.profilePlace()
			if err != nil {
				return err
			}
			settings, err := profile.LoadSettings(p.config)
			if err != nil {
				return err
			}
			names := args
			if len(names) == 0 {
				if names, err = profile.Names(profiles.FS, p.config); err != nil {
					return err
				}
			}
			reports, used, err := p.check(cmd.Context(), names)
			if err != nil {
				return err
			}
			if p.keysError != nil {
				file := filepath.Join(p.config, "credentials.env")
				reports = append(reports, profileReport{
					Profile: "credentials", From: file, Problems: []profile.Problem{{File: file, Wrong: p.keysError.Error()}}, Warnings: []profile.Problem{},
				})
			}
			return a.showChecks(reports, p.login(settings, used))
		},
	}
}

// check checks profiles, and tells whether one of them uses the ChatGPT login.
// That one can't be read at all is a problem of it.
func (p *profilePlace) check(ctx context.Context, names []string) (reports []profileReport, used bool, err error) {
	for _, name := range names {
		r := profileReport{Profile: name, From: p.origin(name), Problems: []profile.Problem{}, Warnings: []profile.Problem{}}
		found, err := profile.Check(ctx, p.input(name))
		switch {
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case err != nil:
			r.Problems = append(r.Problems, profile.Problem{File: r.From, Wrong: err.Error()})
		default:
			r.Problems = append(r.Problems, found.Problems...)
			r.Warnings = append(r.Warnings, found.Warnings...)
			if found.Snapshot != nil {
				for _, route := range found.Snapshot.Routes {
					used = used || route.Driver == profile.DriverCodexLogin
				}
			}
		}
		reports = append(reports, r)
	}
	return reports, used, nil
}

// login says how homes get the operator's login.
func (p *profilePlace) login(settings *profile.Settings, used bool) loginReport {
	r := loginReport{LoggedIn: p.loggedIn, Mode: settings.AuthLinkMode, Used: used, Note: profile.LoginNote(settings.AuthLinkMode)}
	if p.loginHome != "" {
		r.Path = filepath.Join(p.loginHome, "auth.json")
	}
	if !p.loggedIn {
		r.Note = "there is no ChatGPT login; roles on it are left out until you run `codex login`"
	}
	return r
}

func (a *app) showChecks(reports []profileReport, login loginReport) error {
	problems := 0
	for _, r := range reports {
		problems += len(r.Problems)
	}
	if a.json {
		err := a.printJSON(map[string]any{"ok": problems == 0, "profiles": reports, "login": login})
		return errors.Join(err, failedIf(problems > 0))
	}
	for _, r := range reports {
		for _, problem := range r.Problems {
			a.printf("%s\n", oneLine(problem.String(), cellRunes))
		}
	}
	a.showWarnings(reports)
	for _, r := range reports {
		a.notice("%s: %s", r.Profile, r.sum())
	}
	if login.Used {
		a.notice("ChatGPT login %s: %s", login.Path, login.Note)
	}
	return failedIf(problems > 0)
}

// showWarnings prints the warnings; one that several profiles have is told once.
func (a *app) showWarnings(reports []profileReport) {
	shared := map[profile.Problem][]string{} // without its place -> profiles
	bare := func(w profile.Problem) profile.Problem { w.File, w.Line = "", 0; return w }
	for _, r := range reports {
		for _, w := range r.Warnings {
			if have := shared[bare(w)]; len(have) == 0 || have[len(have)-1] != r.Profile {
				shared[bare(w)] = append(have, r.Profile)
			}
		}
	}
	for _, r := range reports {
		for _, w := range r.Warnings {
			have := shared[bare(w)]
			if have[0] != r.Profile {
				continue
			}
			if len(have) > 1 {
				w.File, w.Line = strings.Join(have, ", "), 0
			}
			a.printf("%s\n", oneLine("warning: "+w.String(), cellRunes))
		}
	}
}

// sum says in a few words what was found.
func (r profileReport) sum() string {
	text := "ok"
	if n := len(r.Problems); n > 0 {
		text = plural(n, "problem")
	}
	if n := len(r.Warnings); n > 0 {
		text += fmt.Sprintf(", %s", plural(n, "warning"))
	}
	return text
}

// failedIf ends the command with the code of failed work, without a word more.
func failedIf(failed bool) error {
	if failed {
		return &exitError{code: exitFailure}
	}
	return nil
}
