package admission

import (
	"strings"
	"unicode"
)

// overlap finds a path of one list that is, holds, or lies in a path of the
// other. Paths are absolute and clean. With fold, names that differ in case
// alone are the same; a name beyond ASCII then counts as the same as any, since
// what a file system takes for equal there is its own business.
func overlap(a, b []string, fold bool) (inA, inB string, found bool) {
	for _, x := range a {
		for _, y := range b {
			if related(x, y, fold) {
				return x, y, true
			}
		}
	}
	return "", "", false
}

// related reports whether one of two paths holds the other.
func related(x, y string, fold bool) bool {
	a, b := strings.Split(strings.Trim(x, "/"), "/"), strings.Split(strings.Trim(y, "/"), "/")
	for i := range min(len(a), len(b)) {
		if a[i] == "" || b[i] == "" { // the root of the file system
			return true
		}
		if !sameName(a[i], b[i], fold) {
			return false
		}
	}
	return true
}

func sameName(a, b string, fold bool) bool {
	if a == b || !fold {
		return a == b
	}
	return !ascii(a) || !ascii(b) || strings.EqualFold(a, b)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
