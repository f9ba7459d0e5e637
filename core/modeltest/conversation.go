package modeltest

// Role says who made an entry of a conversation.
type Role string

// The roles, whatever the wire calls them.
const (
	RoleSystem    Role = "system" // system and developer messages, instructions
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant" // text, reasoning and calls of the model
	RoleTool      Role = "tool"      // a tool's output
)

// Entry is one item of a conversation.
type Entry struct {
	Role Role
	Text string // text; of a tool its output; "" for a call
	Call string // name of the tool called, as the wire has it
}

// Conversation is what a request says, free of its wire.
type Conversation struct {
	Model   string
	Entries []Entry  // oldest first
	Tools   []string // names that the request offers; with namespace as "ns__name"
}

// view is what the model sees at one point of a conversation.
type view struct {
	systems      []string
	users        []string
	latestUsers  []string // the latest unbroken run of user messages
	userRuns     int      // how many such runs there were
	outputs      []string
	freshOutputs []string // outputs since the last response
	tools        []string
	last         Role
}

// add moves the view past one entry.
func (v *view) add(e Entry) {
	switch e.Role {
	case RoleSystem:
		// Context that is put in between breaks neither a run of user
		// messages nor a response.
		v.systems = append(v.systems, e.Text)
		return
	case RoleUser:
		if v.last != RoleUser {
			v.latestUsers, v.userRuns = nil, v.userRuns+1
		}
		v.users = append(v.users, e.Text)
		v.latestUsers = append(v.latestUsers, e.Text)
	case RoleTool:
		v.outputs = append(v.outputs, e.Text)
		v.freshOutputs = append(v.freshOutputs, e.Text)
	case RoleAssistant:
		v.freshOutputs = nil
	}
	v.last = e.Role
}

// choice is the step that answers, and where it stands.
type choice struct {
	section  *section
	step     *step
	number   int // of the step within its section, from 1
	response int // of the response within the conversation, from 1
	view     *view
}

// choose finds the step for the response that the conversation asks for. It
// goes through the conversation and repeats the choice that was made for every
// response in it, so that it needs no memory of its own.
func (m *model) choose(c *Conversation) (*choice, error) {
	v := &view{tools: c.Tools}
	given := map[*section]int{} // section -> responses it gave, as far as they count
	run := map[*section]int{}   // rule -> run of user messages that its count belongs to
	pick := func() *section {
		s := m.pick(v)
		if s != m.plain && run[s] != v.userRuns {
			given[s], run[s] = 0, v.userRuns
		}
		given[s]++
		return s
	}
	responses := 0
	for _, e := range c.Entries {
		if e.Role == RoleAssistant && v.last != RoleAssistant {
			pick()
			responses++
		}
		v.add(e)
	}
	s := pick()
	number := given[s]
	if number > len(s.steps) {
		if !s.repeat {
			return nil, badRequest("script: model %s: %s (line %d) have %d steps, response %d asks for step %d",
				m.key, s.name, s.line, len(s.steps), responses+1, number)
		}
		number = len(s.steps)
	}
	return &choice{section: s, step: s.steps[number-1], number: number, response: responses + 1, view: v}, nil
}

func (m *model) pick(v *view) *section {
rules:
	for _, rule := range m.rules {
		for _, c := range rule.conds {
			if !c.holds(v) {
				continue rules
			}
		}
		return rule
	}
	return m.plain
}
