package modeltest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Script is a parsed script. It is immutable and safe for concurrent use.
type Script struct {
	models map[string]*model // model key -> its sections
}

// Models returns the keys of the script's models, sorted.
func (s *Script) Models() []string {
	keys := make([]string, 0, len(s.models))
	for key := range s.models {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

type model struct {
	key   string
	line  int
	plain *section
	rules []*section
}

// sections lists what a model may answer from, in the order of preference.
func (m *model) sections() []*section { return append(slices.Clone(m.rules), m.plain) }

type section struct {
	name   string // for reports: "plain steps", or the rule's own line
	line   int
	conds  []condition
	steps  []*step
	repeat bool
}

type step struct {
	line    int
	actions []action
}

type actionKind int

const (
	actSay actionKind = iota + 1
	actThink
	actJSON
	actCall
	actCustom
	actDelay
	actHold
	actUsage
	actFinish
	actCut
	actError
	actFail
)

// action is one line of a step. Which fields count depends on its kind.
type action struct {
	kind      actionKind
	text      string // say, think, call-raw's arguments, custom's input, error's message
	namespace string
	name      string          // tool, gate, finish reason
	value     json.RawMessage // call's arguments and json's value
	delay     time.Duration
	usage     *Usage
	cut       cut
	failure   *ProviderError
}

// ends reports whether nothing may follow the action in its step.
func (a action) ends() bool {
	return a.kind == actError || a.kind == actFail || a.kind == actCut && a.cut.now
}

// cut says where a stream breaks.
type cut struct {
	now    bool
	deltas int // after so many streamed pieces; 0: not by pieces
	bytes  int // after so many bytes of the body; 0: not by bytes
}

// condition is one test of a rule.
type condition struct {
	not   bool
	where string // user, any user, system, output, tool
	how   string // starts, contains, has
	text  string
	field string // of has
}

// holds tests the condition on what the model sees.
func (c condition) holds(v *view) bool { return c.test(v) != c.not }

func (c condition) test(v *view) bool {
	switch c.where {
	case "user":
		return slices.ContainsFunc(v.latestUsers, c.matches)
	case "any user":
		return slices.ContainsFunc(v.users, c.matches)
	case "system":
		return slices.ContainsFunc(v.systems, c.matches)
	case "output":
		return slices.ContainsFunc(v.freshOutputs, c.matches)
	case "tool":
		return slices.Contains(v.tools, c.text)
	}
	return false
}

func (c condition) matches(text string) bool {
	switch c.how {
	case "starts":
		return strings.HasPrefix(strings.TrimSpace(text), c.text)
	case "contains":
		return strings.Contains(text, c.text)
	case "has":
		return slices.ContainsFunc(fieldValues(text, c.field), func(raw string) bool {
			return raw == c.text || unquoted(raw) == c.text
		})
	}
	return false
}
