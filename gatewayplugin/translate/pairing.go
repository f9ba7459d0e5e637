package translate

import (
	"encoding/json"
	"fmt"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

const (
	interruptedOutput = "[no output: the call was interrupted]"
	imageNote         = "[an image was left out: this model reads text only]"
)

// pairing finds the outputs of a conversation's calls. The Responses wire
// lists items in the order in which they came about; other wires want the
// outputs right behind their calls. What has lost its partner must be
// repaired: a provider refuses a conversation with a call that has no output,
// for ever.
type pairing struct {
	items   []responses.Item
	outputs map[string][]int // call id -> indexes of its outputs that are not used yet
	used    map[int]bool     // indexes of outputs that stand beside their calls
	ids     map[string]int   // call id -> how often it was used for a call
}

func newPairing(items []responses.Item) *pairing {
	p := &pairing{items: items, outputs: map[string][]int{}, used: map[int]bool{}, ids: map[string]int{}}
	for i, item := range items {
		if isOutput(item) {
			p.outputs[item.CallID] = append(p.outputs[item.CallID], i)
		}
	}
	return p
}

// take returns the next output of a call, and marks it as used.
func (p *pairing) take(callID string) ([]responses.Part, bool) {
	waiting := p.outputs[callID]
	if len(waiting) == 0 {
		return nil, false
	}
	p.outputs[callID] = waiting[1:]
	p.used[waiting[0]] = true
	return responses.Parts(p.items[waiting[0]].Output), true
}

// uniqueID makes the ids of calls unique: Codex keeps two calls of one id
// apart by their order alone, providers refuse them.
func (p *pairing) uniqueID(id string) string {
	if id == "" {
		id = "call"
	}
	for n := p.ids[id]; ; n++ {
		unique := id
		if n > 0 {
			unique = fmt.Sprintf("%s_%d", id, n+1)
		}
		if n > 0 && p.ids[unique] > 0 {
			continue
		}
		p.ids[id] = n + 1
		if n > 0 {
			p.ids[unique] = 1
		}
		return unique
	}
}

// leading returns the instructions and the system and developer messages
// before anything else, and the index of the first item after them.
func leading(in *responses.Request) (texts []string, rest int) {
	if in.Instructions != "" {
		texts = append(texts, in.Instructions)
	}
	for ; rest < len(in.Input) && isSystem(in.Input[rest]); rest++ {
		if t := text(responses.Parts(in.Input[rest].Content)); t != "" {
			texts = append(texts, t)
		}
	}
	return texts, rest
}

func isMessage(item responses.Item) bool { return item.Type == "message" || item.Type == "" }

func isSystem(item responses.Item) bool {
	return isMessage(item) && (item.Role == "developer" || item.Role == "system")
}

func isOutput(item responses.Item) bool {
	return item.Type == "function_call_output" || item.Type == "custom_tool_call_output"
}

// developerNote is how instructions in mid-conversation are told to a model:
// wires other than Responses have no place for them there.
func developerNote(text string) string {
	return "<developer_message>\n" + text + "\n</developer_message>"
}

// strayOutput is how a tool's output is told whose call is gone.
func strayOutput(item responses.Item) string {
	return fmt.Sprintf("<tool_output call_id=%q>\n%s\n</tool_output>", item.CallID, text(responses.Parts(item.Output)))
}

// validArguments returns arguments that a provider takes back: a JSON object.
// Codex keeps in its history whatever a model once sent, even half an object.
func validArguments(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return "{}"
	}
	return arguments
}

// customArguments wraps the input of a custom tool.
func customArguments(input string) string {
	raw, err := encode(map[string]string{"input": input})
	if err != nil {
		return "{}" // a string can't fail to encode
	}
	return string(raw)
}
