package mcpserver

import (
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// shortestPatch is how much of a page a patch's paths get at least, in code
// points.
const shortestPatch = 500

// shortenPatches shares one page among the paths of the jobs' patches: a worker
// decides how many files it makes and what they are called. It returns how many
// entries were left out, for the result to say so.
func shortenPatches(jobs []control.JobView) (omitted int) {
	writers := 0
	for _, j := range jobs {
		if j.Patch != nil {
			writers++
		}
	}
	room := max(shortestPatch, defaultPage/max(1, writers))
	for _, j := range jobs {
		omitted += shortenPatch(j.Patch, room)
	}
	return omitted
}

// shortenPatch keeps the paths of a patch that fit the room, in code points:
// first those that matter most to who integrates it. A list that has entries
// keeps one at least, because an absent one would tell something else.
func shortenPatch(p *control.PatchView, room int) (omitted int) {
	if p == nil {
		return 0
	}
	for _, paths := range []*[]string{&p.RefusedPaths, &p.FlaggedPaths, &p.ChangedPaths} {
		all := len(*paths)
		*paths, room = leading(*paths, room)
		omitted += all - len(*paths)
	}
	return omitted
}

// leading returns the first paths that fit the room, one at least, and the room
// that is left.
func leading(paths []string, room int) (kept []string, left int) {
	for i, path := range paths {
		room -= utf8.RuneCountInString(path) + len(`"",`)
		if room < 0 && i > 0 {
			return paths[:i], 0
		}
	}
	return paths, max(0, room)
}
