package main

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// sessionOptions is what the command line says of a session to be.
type sessionOptions struct {
	profile  string // empty: the active one
	snapshot string
	cwd      string
	sandbox  string
	tokens   int64
	usd      float64
	bind     []string // AGENT=MODEL
	faults   []string // ROUTE=KIND
}

func (o *sessionOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.cwd, "cwd", ".", "workspace: a folder inside a git repository")
	flags.StringVar(&o.snapshot, "snapshot", "", "start from a kept snapshot, by its hash, instead of a profile")
	flags.Int64Var(&o.tokens, "budget-tokens", 0, "tokens that the whole session may use, input and output (default: as the profile says)")
	flags.Float64Var(&o.usd, "budget-usd", 0, "US dollars that the whole session may cost (default: as the profile says)")
	flags.StringVar(&o.sandbox, "sandbox", "", "what the root may do on disk: read-only or workspace-write (default: as its role says)")
	flags.StringArrayVar(&o.bind, "bind", nil, "AGENT=MODEL: give an agent another model of the catalogue; repeatable")
	flags.StringArrayVar(&o.faults, "route-fault", nil, "ROUTE=KIND: do without a route, as if it had that fault; repeatable")
}

// create makes the session and starts its keeper.
func (a *app) create(ctx context.Context, f folders.Folders, o *sessionOptions, prompt, kind string) (*store.Session, error) {
	in, err := a.createInput(f, o, prompt, kind)
	if err != nil {
		return nil, err
	}
	rec, err := supervisor.Create(ctx, in)
	if err != nil {
		return nil, err
	}
	a.notice("session %s starts (profile %s, Codex %s)", rec.SessionID, rec.ProfileID, rec.Codex.Version)
	for _, warning := range rec.Warnings {
		a.notice("note: %s", warning)
	}
	if err := a.startKeeper(f, rec); err != nil {
		return nil, launchError(err, rec)
	}
	return rec, nil
}

// createInput is what a session is created from.
func (a *app) createInput(f folders.Folders, o *sessionOptions, prompt, kind string) (*supervisor.CreateInput, error) {
	bindings, err := pairs("--bind", "AGENT=MODEL", o.bind)
	if err != nil {
		return nil, err
	}
	faults, err := pairs("--route-fault", "ROUTE=KIND", o.faults)
	if err != nil {
		return nil, err
	}
	return &supervisor.CreateInput{
		Folders: f, Profile: o.profile, Snapshot: o.snapshot, Bundled: profiles.FS, Bindings: bindings, RouteFaults: faults,
		Sandbox: o.sandbox, BudgetTokens: o.tokens, BudgetUSD: o.usd, Workspace: o.cwd, Prompt: prompt, Kind: kind,
		Build: build(), Getenv: a.getenv, Now: time.Now(), Random: rand.Reader,
	}, nil
}

// pairs reads the values of a flag that is given once for each key.
func pairs(flag, shape string, values []string) (map[string]string, error) {
	m := map[string]string{}
	for _, text := range values {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := m[key]; !ok || key == "" || value == "" || twice {
			return nil, usagef("%s must map each key once, as %s, not %q", flag, shape, text)
		}
		m[key] = value
	}
	return m, nil
}

// secretsFor returns the credentials of a session's team that only this
// command's environment has: the others are read from credentials.env by
// whoever needs them.
func (a *app) secretsFor(f folders.Folders, rec *store.Session) (map[string]string, error) {
	found := map[string]string{}
	snap, err := profile.Load(f.State, rec.SnapshotHash)
	if core.KindOf(err) == core.KindNotFound {
		return found, nil // kept by an older build, which knows nothing of them
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(slices.Values(snap.SecretNames())) {
		if value := a.getenv(name); value != "" {
			found[name] = value
		}
	}
	return found, nil
}
