package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/doctor"
	"github.com/codex-mmo/codex-mmo/profiles"
)

func (a *app) doctorCmd() *cobra.Command {
	var timeout time.Duration
	var sandbox bool
	cmd := &cobra.Command{
		Use:   "doctor [PROFILE]",
		Short: "Check whether everything that a session needs is there and works",
		Long: "doctor checks, in under 5 seconds, what sessions stand on: the machine, the folders, git, Codex, the profiles\n" +
			"(all, or the one that is named), the MCP server, the sandbox that agents' commands run in, and what earlier\n" +
			"sessions left. Every line has a verdict, the reason, and what to do about it. It makes no more than the folders that any command makes.\n\n" +
			"With --sandbox it shows what agents' commands can read and write on this machine, as real commands tried it in both\n" +
			"permission profiles: mmo-ro, of roles that read, and mmo-rw, of roles that write. Where a broken sandbox lets them\n" +
			"write, what they wrote is taken away.\n\n" +
			"Exit codes: 0 nothing failed (warnings count as nothing), 1 something failed, 2 wrong command line, 130 interrupted.",
		Example: "  codex-mmo doctor\n  codex-mmo doctor ./my-team\n  codex-mmo doctor --sandbox\n  codex-mmo doctor --json | jq '.findings[] | select(.verdict != \"ok\")'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("`codex-mmo doctor` takes one profile or none, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.outside(); err != nil {
				return err
			}
			if sandbox && len(args) > 0 {
				return usagef("`codex-mmo doctor --sandbox` takes no profile: what agents can reach does not depend on it")
			}
			if timeout < time.Second {
				return usagef("--timeout is %s; it must be a second or more", timeout)
			}
			in, err := a.doctorInput(args)
			if err != nil {
				return err
			}
			in.Limit, in.Sandbox = timeout, sandbox
			report := doctor.Run(cmd.Context(), in)
			if cmd.Context().Err() != nil {
				return &exitError{code: exitCancelled}
			}
			return a.showReport(report, sandbox)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", doctor.DefaultLimit, "how long it may take; what has not ended by then has failed")
	cmd.Flags().BoolVar(&sandbox, "sandbox", false, "show what agents' commands can read and write on this machine")
	return cmd
}

func (a *app) doctorInput(args []string) (*doctor.Input, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "finding the current folder: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "finding the running build: %w", err)
	}
	in := &doctor.Input{
		Getenv: a.getenv, UID: os.Getuid(), Cwd: cwd, Bundled: profiles.FS, Binary: binary, Build: build(), Random: rand.Reader,
	}
	if len(args) == 1 {
		in.Profile = args[0]
	}
	return in, nil
}

// showReport prints a line a finding under its group's name, what agents can
// reach when that was asked for, and the sum.
func (a *app) showReport(r *doctor.Report, reach bool) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		group := ""
		for _, f := range r.Findings {
			if f.Group != group {
				group = f.Group
				fmt.Fprintf(w, "%s\n", group)
			}
			text := f.Reason
			if f.Remedy != "" {
				text += "; " + f.Remedy
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Verdict, f.Check, text)
		}
		if reach {
			showReach(w, r.Sandbox)
		}
		_ = w.Flush() // as with every print to stdout
		a.printf("\n%d ok, %d warnings, %d failed, in %.1f s\n",
			r.Count(doctor.OK), r.Count(doctor.Warning), r.Count(doctor.Failed), r.ElapsedSeconds)
	}
	if !r.OK {
		return &exitError{code: exitFailure}
	}
	return nil
}

// showReach prints a table of places: what a command in each permission profile
// could do there.
func showReach(w io.Writer, list []doctor.Reach) {
	type place struct{ what, path string }
	var order []place
	can := map[place]map[string]string{}
	for _, r := range list {
		at := place{r.What, r.Path}
		if can[at] == nil {
			order, can[at] = append(order, at), map[string]string{}
		}
		can[at][r.Profile] = abilities(r)
	}
	if len(order) > 0 {
		fmt.Fprintf(w, "\nwhat agents can reach\t%s\t%s\t\n", codexhome.ProfileRead, codexhome.ProfileWrite)
	}
	for _, at := range order {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", at.what, can[at][codexhome.ProfileRead], can[at][codexhome.ProfileWrite], at.path)
	}
}

func abilities(r doctor.Reach) string {
	switch {
	case r.What == doctor.Network && r.Read:
		return "reached"
	case r.Read && r.Write:
		return "read, write"
	case r.Read:
		return "read"
	case r.Write:
		return "write"
	}
	return "closed"
}
