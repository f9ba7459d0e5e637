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

	"github.com/codex-mmo/codex-mmo/core/profile"
)

// profiles compiles the one profile that is named, or every bundled one and
// every one of the user, and looks at their routes.
func (p *patient) profiles(ctx context.Context) outcome {
	var list []Finding
	config := ""
	if p.ground().err == nil {
		config = p.ground().Config
	}
	if p.Profile != "" {
		return outcome{findings: p.compile(ctx, p.Profile, profile.CompileInput{Name: p.Profile, Bundled: p.Bundled, ConfigDir: config})}
	}
	bundled, err := fs.ReadDir(p.Bundled, ".")
	if err != nil {
		list = append(list, found(groupProfiles, "bundled", Failed, err, "build codex-mmo again"))
	}
	for _, entry := range bundled {
		if entry.IsDir() {
			list = append(list, p.compile(ctx, entry.Name(), profile.CompileInput{Name: entry.Name(), Bundled: p.Bundled})...)
		}
	}
	if config == "" {
		return outcome{findings: append(list, notChecked(groupProfiles, "own profiles", "the folders"))}
	}
	own := filepath.Join(config, "profiles")
	entries, err := os.ReadDir(own)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		list = append(list, found(groupProfiles, "own profiles", Failed, err, "make the folder readable"))
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return outcome{findings: append(list, found(groupProfiles, "own profiles", Failed, context.Cause(ctx), remedyTime))}
		}
		list = append(list, p.compile(ctx, "own "+entry.Name(), profile.CompileInput{Name: filepath.Join(own, entry.Name()), ConfigDir: config})...)
	}
	return outcome{findings: list}
}

func (p *patient) compile(ctx context.Context, name string, in profile.CompileInput) []Finding {
	snap, err := profile.Compile(ctx, &in)
	if err != nil {
		return []Finding{found(groupProfiles, name, Failed, err, "mend the profile as docs/PROFILES.md says, or name another")}
	}
	list := []Finding{finding(groupProfiles, name, OK, fmt.Sprintf("version %s, %d agents led by %s, %d models",
		snap.ProfileVersion, len(snap.Agents), snap.RootAgent, len(snap.Models)))}
	for _, id := range slices.Sorted(maps.Keys(snap.Routes)) {
		list = append(list, judgeRoute(name, snap.Routes[id]))
	}
	return list
}

// judgeRoute tells whether a route could be served: what credential it needs
// and whether that is there.
func judgeRoute(profileName string, r profile.Route) Finding {
	check := fmt.Sprintf("%s, route %s", profileName, r.ID)
	if r.Scripted() {
		return finding(groupProfiles, check, OK, fmt.Sprintf("driver %s, scripted: needs no credential and costs nothing", r.Driver))
	}
	f := finding(groupProfiles, check, Failed, fmt.Sprintf("driver %s needs a credential, and this build has only scripted routes, which need none", r.Driver))
	f.Remedy = "use a profile with scripted routes, such as offline-demo"
	return f
}
