package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/profile"
)

func (a *app) profileShowCmd() *cobra.Command {
	resolved := false
	cmd := &cobra.Command{
		Use:   "show [PROFILE]",
		Short: "Show a team: its agents, routes, prices and limits",
		Long: "show tells who is in a team, on which models, with which rights and limits, and which of its routes can be\n" +
			"used here. Without a PROFILE it shows the active one. Prices are USD per million tokens.\n\n" +
			"With --resolved it prints every value instead, and for each the file and line that said it: the profile, a layer\n" +
			"of the catalogue, or the default.",
		Example: "  codex-mmo profile show adaptive-engineering\n" +
			"  codex-mmo profile show --resolved mine | grep base_url\n" +
			"  codex-mmo profile show --json mine | jq .snapshot.agents.lead",
		Args: atMostOne("PROFILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.profilePlace()
			if err != nil {
				return err
			}
			name, err := p.named(args)
			if err != nil {
				return err
			}
			if resolved {
				return a.showResolved(cmd.Context(), p, name)
			}
			snap, err := profile.Compile(cmd.Context(), p.input(name))
			if err != nil {
				return err
			}
			routes := snap.Availability(p.keys.Has, p.loggedIn, nil)
			if a.json {
				return a.printJSON(map[string]any{"from": p.origin(name), "snapshot_hash": snap.Hash, "snapshot": snap, "route_availability": routes})
			}
			a.showTeam(p.origin(name), snap, routes)
			return nil
		},
	}
	cmd.Flags().BoolVar(&resolved, "resolved", false, "print every value and where it was said")
	return cmd
}

func (a *app) showResolved(ctx context.Context, p *profilePlace, name string) error {
	values, err := profile.Resolve(ctx, p.input(name))
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"values": values})
	}
	var rows [][]string
	for _, v := range values {
		rows = append(rows, []string{v.Key, oneLine(string(v.Value), noteRunes), v.Origin.String()})
	}
	a.table([]string{"KEY", "VALUE", "FROM"}, rows)
	return nil
}

func (a *app) showTeam(from string, s *profile.Snapshot, routes map[string]profile.RouteAvailability) {
	gateway := "none: Codex reaches every route by itself"
	if s.GatewayHash != "" {
		gateway = s.GatewayHash
	}
	c := s.Coordination
	a.facts(
		[2]string{"profile", s.ProfileID + " " + s.ProfileVersion},
		[2]string{"from", from},
		[2]string{"about", s.Description},
		[2]string{"root", s.RootAgent},
		[2]string{"limits", fmt.Sprintf("%s at once, %d of them writing, %d deep", plural(c.MaxActiveAgents, "job"), c.MaxActiveWriters, c.MaxDepth)},
		[2]string{"budget", budget(s.Budget)},
		[2]string{"snapshot", s.Hash},
		[2]string{"gateway", gateway},
	)
	a.section([]string{"AGENT", "MODEL", "EFFORT", "MODE", "RIGHTS", "RUNS AS", "STARTS"}, agentRows(s))
	a.section([]string{"ROUTE", "NAME", "PAID", "STATE"}, teamRoutes(s, routes))
	a.section([]string{"MODEL", "IN", "CACHED", "OUT", "AS OF"}, priceRows(s))
	for i, warning := range s.Warnings {
		if i == 0 {
			a.printf("\n")
		}
		a.printf("warning: %s\n", oneLine(warning, cellRunes))
	}
}

// budget says what a session may spend.
func budget(b profile.Budget) string {
	var parts []string
	if b.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens, %d of them for the report", b.Tokens, b.ReserveTokens))
	}
	if b.USD > 0 {
		parts = append(parts, fmt.Sprintf("USD %.2f, %.2f of it for the report", b.USD, b.ReserveUSD))
	}
	if parts == nil {
		return "no limit"
	}
	return strings.Join(parts, "; ")
}

func agentRows(s *profile.Snapshot) (rows [][]string) {
	for _, id := range s.Order {
		agent := s.Agents[id]
		runs := strings.Join(agent.Backends, ", ")
		if id == s.RootAgent {
			runs = "root"
		}
		rows = append(rows, []string{id, agent.Model, agent.Effort, agent.ExecutionMode, agent.Permissions, orDash(runs), orDash(strings.Join(agent.CanSpawn, ", "))})
	}
	return rows
}

func teamRoutes(s *profile.Snapshot, routes map[string]profile.RouteAvailability) (rows [][]string) {
	for _, id := range slices.Sorted(maps.Keys(s.Routes)) {
		state := "available"
		if r := routes[id]; !r.Available {
			state = r.Reason
		}
		rows = append(rows, []string{id, s.Routes[id].Name, s.Routes[id].BillingMode, state})
	}
	return rows
}

// priceRows are the models' prices. What is not known is said to be unknown;
// what is paid by the month, or not at all, has none.
func priceRows(s *profile.Snapshot) (rows [][]string) {
	for _, key := range slices.Sorted(maps.Keys(s.Models)) {
		m := s.Models[key]
		none := "unknown"
		if s.Routes[m.Route].BillingMode == profile.BillingSubscription || m.Price == nil && !s.Unpriced(key) {
			none = "-"
		}
		price := m.Price
		if price == nil {
			price = &profile.Price{}
		}
		rows = append(rows, []string{key, usd(price.Input, none), usd(price.CachedInput, none), usd(price.Output, none), orDash(price.AsOf)})
	}
	return rows
}

func usd(n *float64, none string) string {
	if n == nil {
		return none
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}
