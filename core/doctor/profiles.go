package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// profiles compiles the one profile that is named, or every bundled one and
// every one of the user, and looks at what their routes need.
func (p *patient) profiles(ctx context.Context) outcome {
	config := ""
	if p.ground().err == nil {
		config = p.ground().Config
	}
	list := []Finding{p.judgeLogin()}
	n := &needs{keys: p.ground().credentials, login: codexhome.LoggedIn(p.Getenv)}
	if p.Profile != "" {
		in := profile.CompileInput{Name: p.Profile, Bundled: p.Bundled, ConfigDir: config}
		return outcome{findings: append(list, n.judge(ctx, p.Profile, in, true)...)}
	}
	list = append(list, n.judgeBundled(ctx, p.Bundled)...)
	if config == "" {
		return outcome{findings: append(list, notChecked(groupProfiles, "own profiles", "the folders"))}
	}
	names, err := profile.Names(nil, config)
	if err != nil {
		list = append(list, found(groupProfiles, "own profiles", Failed, err, "make the folder readable"))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return outcome{findings: append(list, found(groupProfiles, "own profiles", Failed, context.Cause(ctx), remedyTime))}
		}
		in := profile.CompileInput{Name: name, Bundled: p.Bundled, ConfigDir: config}
		list = append(list, n.judge(ctx, "own "+name, in, false)...)
	}
	return outcome{findings: list}
}

// judgeLogin tells how homes get the operator's ChatGPT login.
func (p *patient) judgeLogin() Finding {
	if !codexhome.LoggedIn(p.Getenv) {
		return finding(groupProfiles, "ChatGPT login", OK, "there is none; only the routes of a ChatGPT plan need one")
	}
	mode := p.ground().settings.AuthLinkMode
	f := finding(groupProfiles, "ChatGPT login", OK, codexhome.OperatorHome(p.Getenv)+": "+profile.LoginNote(mode))
	if mode == profile.AuthCopy {
		f.Verdict, f.Remedy = Warning, `set auth_link_mode = "shared" in settings.toml`
	}
	return f
}

// needs decides about routes by what there is of keys and logins.
type needs struct {
	keys  *profile.Credentials
	login bool
}

const remedyKeys = "run `codex login`, or add the keys to credentials.env; `codex-mmo profile list` says which role needs which, and offline-demo needs nothing"

// judge compiles one profile and tells which of its roles can't work. asked: it is
// the profile that was named.
func (n *needs) judge(ctx context.Context, name string, in profile.CompileInput, asked bool) []Finding {
	snap, err := profile.Compile(ctx, &in)
	if err != nil {
		return []Finding{found(groupProfiles, name, Failed, err, "mend the profile as docs/PROFILES.md says, or name another")}
	}
	list := []Finding{finding(groupProfiles, name, OK, fmt.Sprintf("version %s, %d agents led by %s, %d models",
		snap.ProfileVersion, len(snap.Agents), snap.RootAgent, len(snap.Models)))}
	return append(list, judgeRoutes(name+", routes", snap, n.lacking(snap), asked))
}

// lacking maps the agents whose route can't be used to why.
func (n *needs) lacking(s *profile.Snapshot) map[string]string {
	routes, lacking := s.Availability(n.keys.Has, n.login, nil), map[string]string{}
	for id, a := range s.Agents {
		if r := routes[a.Route]; !r.Available {
			lacking[id] = r.Reason
		}
	}
	return lacking
}

// judgeRoutes tells whether a team can work: without its root it can't, which is a
// failure when it is the team that was asked for; without others it works without
// them.
func judgeRoutes(check string, s *profile.Snapshot, lacking map[string]string, asked bool) Finding {
	if len(lacking) == 0 {
		return finding(groupProfiles, check, OK, "every role has what its route needs")
	}
	var parts []string
	for _, id := range s.Order {
		if lacking[id] != "" {
			parts = append(parts, id+": "+lacking[id])
		}
	}
	f := finding(groupProfiles, check, Warning, strings.Join(parts, "; "))
	if asked && lacking[s.RootAgent] != "" {
		f.Verdict = Failed
	}
	f.Remedy = remedyKeys
	return f
}

// judgeBundled compiles every bundled profile, and sums up what they lack: on
// most machines some keys are missing, and that is nobody's fault.
func (n *needs) judgeBundled(ctx context.Context, bundled fs.FS) []Finding {
	names, err := profile.Names(bundled, "")
	if err != nil {
		return []Finding{found(groupProfiles, "bundled", Failed, err, "build codex-mmo again")}
	}
	var list []Finding
	reasons := map[string]bool{}
	teams, ready := len(names), 0
	for _, name := range names {
		snap, err := profile.Compile(ctx, &profile.CompileInput{Name: name, Bundled: bundled})
		if err != nil {
			list = append(list, found(groupProfiles, name, Failed, err, "build codex-mmo again"))
			continue
		}
		lacking := n.lacking(snap)
		if len(lacking) == 0 {
			ready++
		}
		for _, reason := range lacking {
			reasons[reason] = true
		}
	}
	if len(list) == 0 {
		list = append(list, finding(groupProfiles, "bundled", OK, fmt.Sprintf("%d teams", teams)))
	}
	if ready == teams {
		return append(list, finding(groupProfiles, "routes", OK, "every role has what its route needs"))
	}
	f := finding(groupProfiles, "routes", Warning, fmt.Sprintf("%d of %d bundled teams have all they need: %s",
		ready, teams, strings.Join(slices.Sorted(maps.Keys(reasons)), "; ")))
	f.Remedy = remedyKeys
	return append(list, f)
}
