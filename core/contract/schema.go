package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// maxErrors bounds how many errors are told of one result.
const maxErrors = 20

// Contract is the compiled JSON Schema of a result. It may be used from many
// goroutines.
type Contract struct {
	schema     *jsonschema.Schema
	projection []byte // nil: it can't be projected
	why        []string
}

// place is the address of the contract's own schema; nothing is ever fetched
// from an address.
const place = "contract:schema"

// Compile reads a JSON Schema. It may refer to itself and to the metaschemas,
// to nothing else. Formats are checked.
func Compile(raw []byte) (*Contract, error) {
	doc, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: it %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("is no JSON Schema: it is no object")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothing{})
	c.AssertFormat()
	if err := c.AddResource(place, doc); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	schema, err := c.Compile(place)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %s", oneLine(err))
	}
	out := &Contract{schema: schema}
	projected, err := project(root)
	if err == nil {
		out.why = Gate(projected)
	} else {
		out.why = []string{err.Error()}
	}
	if len(out.why) == 0 {
		if out.projection, err = json.Marshal(projected); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// nothing refuses to load schemas: a contract is whole in itself.
type nothing struct{}

// Load refuses every address.
func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("a contract must not refer to %s", url)
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// parse reads exactly one JSON value, numbers as they are written.
func parse(raw []byte) (any, error) {
	if err := strictjson.Check(raw, nil); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}

// Projection returns the part of the schema that an engine can be made to
// generate by (see Gate), or nil; then NotProjected says why. It is weaker than
// the contract and does not replace it.
func (c *Contract) Projection() []byte { return c.projection }

// NotProjected says why there is no projection.
func (c *Contract) NotProjected() []string { return c.why }

// Value is a result that was read as JSON.
type Value struct {
	doc any
	// Canonical is the value as JSON with sorted keys, without insignificant
	// space, and a line feed.
	Canonical []byte
}

// Read judges a text by the whole schema. The value is nil when the text is no
// JSON; errors are one line each, sorted, and empty for a result that fits.
func (c *Contract) Read(text string) (*Value, []string) {
	doc, err := parse([]byte(text))
	if err != nil {
		return nil, []string{"the result " + err.Error()}
	}
	canonical, err := encode(doc)
	if err != nil {
		return nil, []string{"the result can't be written as JSON: " + err.Error()}
	}
	v := &Value{doc: doc, Canonical: canonical}
	err = c.schema.Validate(doc)
	var faults *jsonschema.ValidationError
	switch {
	case errors.As(err, &faults):
		return v, describe(faults)
	case err != nil:
		return v, []string{"the result can't be checked: " + oneLine(err)}
	}
	return v, nil
}

func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(doc)
	return b.Bytes(), err
}

// describe lists the faults, the place first: those that have no cause below
// them.
func describe(faults *jsonschema.ValidationError) []string {
	var texts []string
	var walk func(*jsonschema.ValidationError)
	walk = func(f *jsonschema.ValidationError) {
		for _, cause := range f.Causes {
			walk(cause)
		}
		if unit := f.BasicOutput(); len(f.Causes) == 0 && unit.Error != nil {
			texts = append(texts, "/"+strings.Join(f.InstanceLocation, "/")+": "+unit.Error.String())
		}
	}
	walk(faults)
	slices.Sort(texts) // the validator walks a map
	return bounded(slices.Compact(texts))
}

func bounded(texts []string) []string {
	if more := len(texts) - maxErrors; more > 0 {
		texts = append(texts[:maxErrors:maxErrors], fmt.Sprintf("and %d more", more))
	}
	return texts
}
