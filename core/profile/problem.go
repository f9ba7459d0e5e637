package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with the files of a team, or that whoever
// uses it should know.
type Problem struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"` // from 1; 0: of the file as a whole
	Key   string `json:"key,omitempty"`  // agents.lead.model
	Wrong string `json:"wrong"`
	Right string `json:"right,omitempty"` // what would be right
}

// String returns it as one line: file:line: key: what is wrong; what is right.
// What can't be printed is escaped: keys and names are a stranger's, and could
// steer the terminal or feign another line.
func (p Problem) String() string {
	text := Origin{p.File, p.Line}.String() + ": "
	if p.Key != "" {
		text += p.Key + ": "
	}
	text += p.Wrong
	if p.Right != "" {
		text += "; " + p.Right
	}
	return printable(text)
}

// printable escapes the characters of a text that can't be printed, as Go does.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// Problems is everything that is wrong with a profile. It is an error.
type Problems struct {
	List []Problem
}

func (p *Problems) add(problem Problem) {
	if !slices.Contains(p.List, problem) {
		p.List = append(p.List, problem)
	}
}

// Error lists all of them, one a line.
func (p *Problems) Error() string {
	p.sort()
	lines := make([]string, len(p.List))
	for i, problem := range p.List {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}

// nearest returns the known word that a wrong one was probably meant to be;
// nothing when none is near.
func nearest(word string, known []string) string {
	best, distance := "", max(1, len(word)/3)+1 // a third of it may be wrong
	for _, k := range known {
		if d := edits(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best != "" || len(word) < 4 {
		return best
	}
	for _, k := range known { // a part of the word was left out
		if strings.Contains(k, word) {
			if best != "" {
				return "" // more than one
			}
			best = k
		}
	}
	return best
}

// edits counts the insertions, deletions and replacements between two words
// (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, before+cost)
		}
	}
	return row[len(b)]
}

// oneOf is what would be right where a word must be among some.
func oneOf(known []string) string {
	return "must be one of " + strings.Join(known, ", ")
}

func quote(v any) string {
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
