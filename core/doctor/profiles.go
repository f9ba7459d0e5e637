package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// profiles looks at the one profile that is named, or at every one of the user
// and every bundled one: whether it can be used, and what its routes lack.
func (p *patient) profiles(ctx context.Context) outcome {
	config := ""
	if p.ground().err == nil {
		config = p.ground().Config
	}
	list := []Finding{p.judgeLogin()}
	names := []string{p.Profile}
	if p.Profile == "" {
		var problems []Finding
		names, problems = p.profileNames(config)
		list = append(list, problems...)
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return outcome{findings: append(list, found(groupProfiles, name, Failed, context.Cause(ctx), remedyTime))}
		}
		list = append(list, p.judgeProfile(ctx, config, name))
	}
	return outcome{findings: list}
}

// profileNames lists the ids of the user's profiles and of the bundled ones that
// none of these hides.
func (p *patient) profileNames(config string) (names []string, problems []Finding) {
	add := func(entries []fs.DirEntry) {
		for _, e := range entries {
			if e.IsDir() && core.ValidID(e.Name()) && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	if config == "" {
		problems = append(problems, notChecked(groupProfiles, "own profiles", "the folders"))
	} else {
		entries, err := os.ReadDir(filepath.Join(config, "profiles"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, found(groupProfiles, "own profiles", Failed, err, "make the folder readable"))
		}
		add(entries)
	}
	bundled, err := fs.ReadDir(p.Bundled, ".")
	if err != nil {
		problems = append(problems, found(groupProfiles, "bundled", Failed, err, "build codex-mmo again"))
	}
	add(bundled)
	slices.Sort(names)
	return names, problems
}

func (p *patient) judgeProfile(ctx context.Context, config, name string) Finding {
	snap, err := profile.Compile(ctx, &profile.CompileInput{Name: name, Bundled: p.Bundled, ConfigDir: config})
	if err != nil {
		return found(groupProfiles, name, Failed, err, "mend the profile as docs/PROFILES.md says, or name another")
	}
	has := func(secret string) bool {
		_, ok := p.ground().credentials.Lookup(secret)
		return ok
	}
	return judgeRoutes(name, snap, snap.Availability(has, codexhome.LoggedIn(p.Getenv), nil), name == p.Profile)
}

// judgeRoutes tells whether a team can work: without the route of its root it
// can't at all, which counts when it is the team that was asked for, without
// another one some of its roles are missing.
func judgeRoutes(name string, snap *profile.Snapshot, routes map[string]profile.RouteAvailability, asked bool) Finding {
	f := finding(groupProfiles, name, OK, fmt.Sprintf("version %s, %d agents led by %s, %d models",
		snap.ProfileVersion, len(snap.Agents), snap.RootAgent, len(snap.Models)))
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(routes)) {
		if r := routes[id]; !r.Available {
			missing = append(missing, fmt.Sprintf("%s (%s)", id, r.Reason))
		}
	}
	if len(missing) == 0 {
		f.Reason += "; every route can be used"
		return f
	}
	f.Verdict, f.Remedy = Warning, "write the secrets into credentials.env, or run `codex login`, as docs/PROFILES.md says"
	lost := strings.Join(missing, ", ")
	if !routes[snap.Agents[snap.RootAgent].Route].Available {
		f.Reason = fmt.Sprintf("can't start, for want of its root's route; routes that can't be used: %s", lost)
		if asked {
			f.Verdict = Failed
		}
		return f
	}
	var roles []string
	for _, id := range snap.Order {
		if !routes[snap.Agents[id].Route].Available {
			roles = append(roles, id)
		}
	}
	f.Reason += fmt.Sprintf("; without %s: routes that can't be used: %s", strings.Join(roles, ", "), lost)
	return f
}

// judgeLogin tells how homes get the operator's ChatGPT login.
func (p *patient) judgeLogin() Finding {
	dir := codexhome.OperatorHome(p.Getenv)
	switch {
	case !codexhome.LoggedIn(p.Getenv):
		return finding(groupProfiles, "ChatGPT login", OK, "there is none; only the routes of a ChatGPT plan need one")
	case p.ground().settings.AuthLinkMode == profile.AuthCopy:
		f := finding(groupProfiles, "ChatGPT login", Warning, fmt.Sprintf("that of %s is copied into homes, as auth_link_mode says; a refresh token is good for one use, so that a copy that is refreshed logs the others out", dir))
		f.Remedy = `set auth_link_mode = "shared" in settings.toml`
		return f
	}
	return finding(groupProfiles, "ChatGPT login", OK, fmt.Sprintf("homes share that of %s by a link; nothing is copied", dir))
}
