package translate

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Origin is where an answer comes from. What a provider signed there is of use
// nowhere else.
type Origin struct {
	Route string
	Model string // as the provider calls it
}

// statePrefix begins what the gateway carries in encrypted_content, with the
// version of its form.
const statePrefix = "mmo1:"

// providerState is what a provider wants back in later requests. Codex keeps
// encrypted_content byte for byte and nothing else that it does not know, so
// the state travels there: the gateway itself remembers nothing, and resuming,
// forking and restarts lose nothing.
//
//	mmo1:<base64 of {"route":"r","model":"claude","answer":"0f…","kind":"anthropic_thinking","data":{…}}>
type providerState struct {
	Route  string          `json:"route"`
	Model  string          `json:"model"`
	Answer string          `json:"answer"` // id of the answer that the state is a part of
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data"`
}

// seal makes the text for encrypted_content.
func (o Origin) seal(answer, kind string, data any) (string, error) {
	raw, err := encode(data)
	if err != nil {
		return "", err
	}
	raw, err = encode(providerState{Route: o.Route, Model: o.Model, Answer: answer, Kind: kind, Data: raw})
	if err != nil {
		return "", err
	}
	return statePrefix + base64.RawStdEncoding.EncodeToString(raw), nil
}

// unseal reads what seal made. It refuses the state of another route or
// model, and what was never ours.
func (o Origin) unseal(sealed, kind string) (*providerState, bool) {
	encoded, ok := strings.CutPrefix(sealed, statePrefix)
	if !ok {
		return nil, false
	}
	raw, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, false
	}
	var s providerState
	if json.Unmarshal(raw, &s) != nil || s.Route != o.Route || s.Model != o.Model || s.Kind != kind {
		return nil, false
	}
	return &s, true
}
