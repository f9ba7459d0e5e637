package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// What can be done with a profile here.
const (
	profileReady   = "ready"   // every role has what it needs
	profilePartly  = "partly"  // the root has; some others have not
	profileLacking = "lacking" // the root has not
	profileInvalid = "invalid" // there are problems
)

// profileRow is a profile of `profile list --json`.
type profileRow struct {
	profile.Entry
	State       string            `json:"state"`
	Unavailable map[string]string `json:"unavailable"` // agent -> why its route can't be used
}

func (a *app) profileListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the profiles, and what each lacks here",
		Long: "list shows your own profiles and the bundled ones. The active one, which is meant when none is named, is\n" +
			"marked with *.\n\n" +
			"STATE is ready, or partly: some roles lack a key or a login, and the team works without them; or lacking: the\n" +
			"root does, so no session can start; or invalid: `codex-mmo profile check` says why. Keys come from the\n" +
			"environment or from credentials.env in your configuration.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.profilePlace()
			if err != nil {
				return err
			}
			list, err := profile.List(cmd.Context(), profiles.FS, p.config)
			if err != nil {
				return err
			}
			rows := []profileRow{}
			for i := range list {
				rows = append(rows, p.row(list[i]))
			}
			if a.json {
				return a.printJSON(map[string]any{"profiles": rows})
			}
			a.showProfiles(p, rows)
			return nil
		},
	}
}

func (p *profilePlace) row(e profile.Entry) profileRow {
	row := profileRow{Entry: e, State: profileInvalid, Unavailable: map[string]string{}}
	if e.Snapshot == nil {
		return row
	}
	routes := e.Snapshot.Availability(p.keys.Has, p.loggedIn, nil)
	row.State = profileReady
	for id, agent := range e.Snapshot.Agents {
		if r := routes[agent.Route]; !r.Available {
			row.Unavailable[id] = r.Reason
		}
	}
	switch {
	case row.Unavailable[e.Snapshot.RootAgent] != "":
		row.State = profileLacking
	case len(row.Unavailable) > 0:
		row.State = profilePartly
	}
	return row
}

func (a *app) showProfiles(p *profilePlace, rows []profileRow) {
	var cells [][]string
	active := false
	for _, r := range rows {
		mark := ""
		if r.Active {
			mark, active = "*", true
		}
		lacks := p.lacks(r)
		if r.State == profileInvalid {
			lacks = plural(r.Problems, "problem") + ": codex-mmo profile check " + r.ID
		}
		cells = append(cells, []string{mark, r.ID, r.Origin, r.State, orDash(lacks)})
	}
	a.table([]string{"", "PROFILE", "FROM", "STATE", "LACKS"}, cells)
	if !active {
		a.notice("no profile is active; choose one with `codex-mmo profile use PROFILE`")
	}
}

// lacks says what is missing, and which roles that leaves out.
func (p *profilePlace) lacks(r profileRow) string {
	roles := map[string][]string{} // what is missing -> agents, in the order of the team
	for _, id := range r.Agents {
		if reason := r.Unavailable[id]; reason != "" {
			what := p.missing(r.Snapshot, r.Snapshot.Agents[id].Route, reason)
			roles[what] = append(roles[what], id)
		}
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(roles)) {
		parts = append(parts, what+" ("+strings.Join(roles[what], ", ")+")")
	}
	return strings.Join(parts, "; ")
}

// missing names what a route lacks, in the fewest words; the reason where it
// lacks nothing that has a name.
func (p *profilePlace) missing(s *profile.Snapshot, route, reason string) string {
	secrets := slices.DeleteFunc(slices.Clone(s.RouteSecrets(route)), p.keys.Has)
	switch {
	case len(secrets) > 0:
		return strings.Join(secrets, ", ")
	case s.Routes[route].Driver == profile.DriverCodexLogin && !p.loggedIn:
		return "ChatGPT login"
	}
	return reason
}
