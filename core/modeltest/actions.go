package modeltest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// actions maps an action's word to what reads the rest of its line.
var actions = map[string]func(*line) (action, error){
	"say":      func(l *line) (action, error) { return textAction(l, actSay) },
	"think":    func(l *line) (action, error) { return textAction(l, actThink) },
	"json":     parseJSON,
	"call":     parseCall,
	"call-raw": parseRawCall,
	"custom":   parseCustom,
	"shell":    parseShell,
	"goal":     parseGoal,
	"delay":    parseDelay,
	"hold":     parseHold,
	"usage":    parseUsage,
	"finish":   parseFinish,
	"cut":      parseCut,
	"error":    parseError,
	"fail":     parseFail,
}

func (p *parser) action(word string, l *line) error {
	parse, ok := actions[word]
	if !ok {
		return errorf(l.number, "see the package's documentation for the actions", "unknown action %q", word)
	}
	a, err := parse(l)
	if err != nil {
		return err
	}
	p.step.actions = append(p.step.actions, a)
	return l.end()
}

func textAction(l *line, kind actionKind) (action, error) {
	text, err := l.text()
	return action{kind: kind, text: text}, err
}

func parseJSON(l *line) (action, error) {
	value, err := l.json()
	return action{kind: actJSON, value: value}, err
}

func parseCall(l *line) (action, error) {
	a, err := parseToolName(l, "{")
	if err != nil {
		return a, err
	}
	a.value, err = l.json()
	return a, err
}

func parseRawCall(l *line) (action, error) {
	a, err := parseToolName(l, "\"`<")
	if err != nil {
		return a, err
	}
	a.text, err = l.text()
	return a, err
}

// parseToolName reads "NAME" or "NAMESPACE NAME" before something that begins
// with one of the characters in stop.
func parseToolName(l *line, stop string) (action, error) {
	a := action{kind: actCall}
	var err error
	if a.name, err = l.word("the tool's name"); err != nil {
		return a, err
	}
	if l.left != "" && !strings.ContainsAny(l.left[:1], stop) {
		a.namespace = a.name
		a.name, err = l.word("the tool's name")
	}
	return a, err
}

func parseCustom(l *line) (action, error) {
	name, err := l.word("the tool's name")
	if err != nil {
		return action{}, err
	}
	text, err := l.text()
	return action{kind: actCustom, name: name, text: text}, err
}

func parseShell(l *line) (action, error) {
	text, err := l.text()
	if err != nil {
		return action{}, err
	}
	return action{kind: actCall, name: "exec_command", value: object("cmd", text)}, nil
}

func parseGoal(l *line) (action, error) {
	status, err := l.word("complete or blocked")
	if err != nil {
		return action{}, err
	}
	if status != "complete" && status != "blocked" {
		return action{}, errorf(l.number, "write complete or blocked", "unknown goal status %q", status)
	}
	return action{kind: actCall, name: "update_goal", value: object("status", status)}, nil
}

// object makes a JSON object of one string member.
func object(name, value string) json.RawMessage {
	return mustJSON(map[string]string{name: value})
}

func parseDelay(l *line) (action, error) {
	word, err := l.word("a duration")
	if err != nil {
		return action{}, err
	}
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return action{}, errorf(l.number, "write it as 500ms or 2s", "%q is no duration", word)
	}
	return action{kind: actDelay, delay: d}, nil
}

func parseHold(l *line) (action, error) {
	gate, err := l.word("the gate's name")
	return action{kind: actHold, name: gate}, err
}

func parseFinish(l *line) (action, error) {
	reason, err := l.word("stop, length or content_filter")
	if err == nil && !slices.Contains([]string{"stop", "length", "content_filter"}, reason) {
		err = errorf(l.number, "write stop, length or content_filter", "unknown finish reason %q", reason)
	}
	return action{kind: actFinish, name: reason}, err
}

func parseUsage(l *line) (action, error) {
	if l.left == "none" {
		l.left = ""
		return action{kind: actUsage}, nil
	}
	u := &Usage{}
	members := map[string]*int{"input": &u.Input, "cached": &u.Cached, "output": &u.Output, "reasoning": &u.Reasoning}
	for !l.done() {
		word, err := l.word("a count")
		if err != nil {
			return action{}, err
		}
		name, value, _ := strings.Cut(word, "=")
		target := members[name]
		n, err := strconv.Atoi(value)
		if target == nil || err != nil || n < 0 {
			return action{}, errorf(l.number, "write usage input=N cached=N output=N reasoning=N", "%q is no count of tokens", word)
		}
		*target = n
	}
	return action{kind: actUsage, usage: u}, nil
}

func parseCut(l *line) (action, error) {
	a := action{kind: actCut}
	if l.done() {
		a.cut.now = true
		return a, nil
	}
	number, err := l.word("a number")
	if err != nil {
		return a, err
	}
	unit, err := l.word("deltas or bytes")
	if err != nil {
		return a, err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || unit != "deltas" && unit != "bytes" {
		return a, errorf(l.number, "write it as cut 3 deltas or cut 200 bytes", "%q is no place to cut", number+" "+unit)
	}
	if unit == "deltas" {
		a.cut.deltas = n
	} else {
		a.cut.bytes = n
	}
	return a, nil
}

func parseError(l *line) (action, error) {
	word, err := l.word("the HTTP status")
	if err != nil {
		return action{}, err
	}
	status, err := strconv.Atoi(word)
	if err != nil || status < 400 || status > 599 {
		return action{}, errorf(l.number, "write a number from 400 to 599", "%q is no HTTP status of an error", word)
	}
	a, err := parseFail(l)
	if err != nil {
		return a, err
	}
	a.kind, a.failure.Status = actError, status
	for !l.done() {
		word, err := l.word("an option")
		if err != nil {
			return a, err
		}
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "code":
			a.failure.Code = value
		case "retry-after":
			a.failure.RetryAfter = value
		case "resets-at":
			a.failure.ResetsAt = value
		default:
			return a, errorf(l.number, "options: code=, retry-after=, resets-at=", "unknown option %q", word)
		}
	}
	return a, nil
}

func parseFail(l *line) (action, error) {
	kind, err := l.word("the error's type")
	if err != nil {
		return action{}, err
	}
	text, err := l.text()
	return action{kind: actFail, failure: &ProviderError{Type: kind, Message: text}}, err
}
