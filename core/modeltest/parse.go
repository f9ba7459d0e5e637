package modeltest

import (
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxScript bounds a script's text, in bytes.
const maxScript = 1 << 20

// Parse reads a script. Errors are core.KindValue and name the line, what is
// wrong with it, and what is right.
func Parse(text string) (*Script, error) {
	if len(text) > maxScript {
		return nil, core.Errorf(core.KindValue, "script has %d bytes, at most %d are allowed", len(text), maxScript)
	}
	p := &parser{src: newSource(text), script: &Script{models: map[string]*model{}}}
	for {
		line, ok := p.src.next()
		if !ok {
			break
		}
		if err := p.statement(line); err != nil {
			return nil, err
		}
	}
	return p.finish()
}

// parser holds where in the script the next statement belongs.
type parser struct {
	src     *source
	script  *Script
	model   *model
	section *section
	step    *step
}

// errorf makes a parse error that names the line and the remedy.
func errorf(line int, remedy, format string, args ...any) error {
	return core.Errorf(core.KindValue, "script line %d: %s", line, fmt.Sprintf(format, args...)).WithRemedy("%s", remedy)
}

func (p *parser) statement(l *line) error {
	word, err := l.word("a statement")
	if err != nil {
		return err
	}
	switch word {
	case "model":
		return p.startModel(l)
	case "when", "otherwise", "step", "repeat":
		if p.model == nil {
			return errorf(l.number, `begin the script with "model KEY"`, "%s stands before any model", word)
		}
		return p.structure(word, l)
	}
	if p.step == nil {
		if _, known := actions[word]; !known {
			return errorf(l.number, "see the package's documentation for the statements", "unknown statement %q", word)
		}
		return errorf(l.number, `put a line "step" before it`, "%s stands outside a step", word)
	}
	return p.action(word, l)
}

func (p *parser) startModel(l *line) error {
	key, err := l.word("the model's key")
	if err != nil {
		return err
	}
	if old := p.script.models[key]; old != nil {
		return errorf(l.number, "give every model one block", "model %s was begun in line %d already", key, old.line)
	}
	p.model = &model{key: key, line: l.number, plain: &section{name: "plain steps", line: l.number}}
	p.script.models[key] = p.model
	p.section, p.step = p.model.plain, nil
	return l.end()
}

func (p *parser) structure(word string, l *line) error {
	switch word {
	case "when":
		return p.startRule(l)
	case "otherwise":
		p.section, p.step = p.model.plain, nil
	case "step":
		p.step = &step{line: l.number}
		p.section.steps = append(p.section.steps, p.step)
	case "repeat":
		if len(p.section.steps) == 0 {
			return errorf(l.number, "put it after the section's last step", "repeat stands before any step")
		}
		p.section.repeat, p.step = true, nil
	}
	return l.end()
}

func (p *parser) startRule(l *line) error {
	rule := &section{name: "when " + strings.TrimSpace(l.rest()), line: l.number}
	for {
		c, err := parseCondition(l)
		if err != nil {
			return err
		}
		rule.conds = append(rule.conds, c)
		if l.done() {
			break
		}
		if joint, err := l.word("and"); err != nil || joint != "and" {
			return errorf(l.number, `join conditions with "and"`, "unexpected text after a condition: %q", joint)
		}
	}
	p.model.rules = append(p.model.rules, rule)
	p.section, p.step = rule, nil
	return nil
}

func parseCondition(l *line) (condition, error) {
	var c condition
	word, err := l.word("a condition")
	if err == nil && word == "not" {
		c.not = true
		word, err = l.word("a condition")
	}
	if err == nil && word == "any" {
		if word, err = l.word("user"); err == nil {
			word = "any " + word
		}
	}
	if err != nil {
		return c, err
	}
	c.where = word
	if word == "tool" {
		c.text, err = l.word("the tool's name")
		return c, err
	}
	if c.how, err = l.word("starts, contains or has"); err != nil {
		return c, err
	}
	switch c.where + " " + c.how {
	case "user starts", "user contains", "any user starts", "any user contains", "system contains", "output contains":
		c.text, err = l.text()
	case "output has":
		if c.field, err = l.word("the field's name"); err == nil {
			c.text, err = l.wordOrText("the field's value")
		}
	default:
		return c, errorf(l.number, "conditions: user, any user, system, output, tool", "unknown condition %q", c.where+" "+c.how)
	}
	return c, err
}

// finish checks what only the whole script shows.
func (p *parser) finish() (*Script, error) {
	if len(p.script.models) == 0 {
		return nil, errorf(p.src.number, `begin the script with "model KEY"`, "the script has no model")
	}
	for _, key := range p.script.Models() {
		m := p.script.models[key]
		if len(m.rules) == 0 && len(m.plain.steps) == 0 {
			return nil, errorf(m.line, `give it at least one "step"`, "model %s has no steps", key)
		}
		for _, s := range m.sections() {
			if s != m.plain && len(s.steps) == 0 {
				return nil, errorf(s.line, `give it at least one "step"`, "the rule %q has no steps", s.name)
			}
			for _, st := range s.steps {
				if err := checkStep(st); err != nil {
					return nil, err
				}
			}
		}
	}
	return p.script, nil
}

func checkStep(st *step) error {
	if len(st.actions) == 0 {
		return errorf(st.line, `say what the model does, as "say TEXT"`, "the step does nothing")
	}
	spoke := false
	for i, a := range st.actions {
		if a.ends() && i != len(st.actions)-1 {
			return errorf(st.line, "move it to the end of the step", "an action follows an error or a cut of the step")
		}
		if a.kind == actError && spoke {
			return errorf(st.line, `use "fail" for an error within the stream`, "an error with an HTTP status can't follow output")
		}
		switch a.kind {
		case actSay, actThink, actJSON, actCall, actCustom:
			spoke = true
		}
	}
	return nil
}
