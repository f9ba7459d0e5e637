package profile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Origin is where a value was said.
type Origin struct {
	File string `json:"file"`           // path of the file, or a word: default, command line
	Line int    `json:"line,omitempty"` // from 1; 0: not in a file
}

func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// tree is one TOML file, or several that were laid over each other: every value
// with the place where it was said.
type tree struct {
	origin Origin
	value  any              // of a leaf: string, int64, float64, bool, []any, or a date
	keys   map[string]*tree // of a table; nil for a leaf
}

// at returns what stands at a path; nil when there is nothing.
func (t *tree) at(path ...string) *tree {
	for _, key := range path {
		if t == nil {
			return nil
		}
		t = t.keys[key]
	}
	return t
}

// where returns the place of a path, or of the nearest table around it.
func (t *tree) where(path ...string) Origin {
	o := t.origin
	for _, key := range path {
		if t = t.keys[key]; t == nil {
			break
		}
		o = t.origin
	}
	return o
}

// over lays another tree on t, key by key: what it says wins. It changes the
// tables of t alone, and shares none with top.
func (t *tree) over(top *tree) {
	for key, sub := range top.keys {
		mine := t.keys[key]
		if sub.keys == nil {
			t.keys[key] = sub
			continue
		}
		if mine == nil || mine.keys == nil {
			mine = &tree{origin: sub.origin, keys: map[string]*tree{}}
			t.keys[key] = mine
		}
		mine.over(sub)
	}
}

// sorted lists the keys of a table.
func (t *tree) sorted() []string {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.keys))
}

// parse reads a TOML file. What is wrong with its syntax becomes a problem.
func parse(file string, data []byte, problems *Problems) *tree {
	var values map[string]any
	if err := toml.NewDecoder(bytes.NewReader(data)).Decode(&values); err != nil {
		p := Problem{File: file, Line: 1, Wrong: strings.TrimPrefix(err.Error(), "toml: "), Right: "TOML 1.0"}
		var invalid *toml.DecodeError
		if errors.As(err, &invalid) {
			p.Line, _ = invalid.Position()
			p.Key = strings.Join(invalid.Key(), ".")
		}
		problems.add(p)
		return empty(file) // what it lacks is no other problem
	}
	return build(values, Origin{File: file, Line: 1}, lines(data), nil)
}

// build gives the decoded values their places.
func build(values map[string]any, origin Origin, lines map[string]int, path []string) *tree {
	t := &tree{origin: origin, keys: map[string]*tree{}}
	for key, value := range values {
		here := append(slices.Clone(path), key)
		o := origin
		if line, ok := lines[strings.Join(here, "\x00")]; ok {
			o.Line = line
		}
		if table, ok := value.(map[string]any); ok {
			t.keys[key] = build(table, o, lines, here)
			continue
		}
		t.keys[key] = &tree{origin: o, value: value}
	}
	return t
}

// lines finds the line of every key: path, joined by NUL -> line. The file has
// been decoded before, so it is valid.
func lines(data []byte) map[string]int {
	found := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = nil
			note(&p, found, &table, e)
		case unstable.KeyValue:
			noteValue(&p, found, table, e)
		}
	}
	return found
}

// note adds the parts of a key to path, and their lines to found.
func note(p *unstable.Parser, found map[string]int, path *[]string, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		*path = append(*path, string(n.Data))
		key := strings.Join(*path, "\x00")
		if _, ok := found[key]; !ok {
			found[key] = p.Shape(n.Raw).Start.Line
		}
	}
}

func noteValue(p *unstable.Parser, found map[string]int, table []string, e *unstable.Node) {
	path := slices.Clone(table)
	note(p, found, &path, e)
	value := e.Value()
	if value == nil || value.Kind != unstable.InlineTable {
		return
	}
	for it := value.Children(); it.Next(); {
		noteValue(p, found, path, it.Node())
	}
}

// setString replaces the string that is the value of a key of a valid file's top
// level, and nothing else in it. It reports whether there was one.
func setString(data []byte, key, value string) ([]byte, bool) {
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			break
		}
		it := e.Key()
		if e.Kind != unstable.KeyValue || !it.Next() || !it.IsLast() || string(it.Node().Data) != key || e.Value().Kind != unstable.String {
			continue
		}
		raw := e.Value().Raw
		return slices.Concat(data[:raw.Offset], []byte(quote(value)), data[raw.Offset+raw.Length:]), true
	}
	return data, false
}
