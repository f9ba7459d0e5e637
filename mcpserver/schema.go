package mcpserver

import (
	"bytes"
	"encoding/json"
)

// property is one argument of a tool.
type property struct {
	name     string
	required bool
	schema   fields
}

// field is one key of a JSON object whose order matters to its reader.
type field struct {
	key   string
	value any
}

// fields is a JSON object in a fixed order: models read schemas from the top.
type fields []field

// MarshalJSON writes the fields in their order.
func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, kv := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(kv.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(kv.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// object makes the input schema of a tool: a flat object without unions, which
// some clients turn into strings, and without unknown arguments.
func object(properties []property) json.RawMessage {
	required := []string{}
	props := fields{}
	for _, p := range properties {
		props = append(props, field{p.name, p.schema})
		if p.required {
			required = append(required, p.name)
		}
	}
	schema, err := json.Marshal(fields{
		{"type", "object"},
		{"properties", props},
		{"required", required},
		{"additionalProperties", false},
	})
	if err != nil {
		panic("mcpserver: a tool schema can't be written: " + err.Error()) // strings, numbers and lists only
	}
	return schema
}

func text(description string, more ...field) fields {
	return append(fields{{"type", "string"}, {"description", description}}, more...)
}

func integer(description string, more ...field) fields {
	return append(fields{{"type", "integer"}, {"description", description}}, more...)
}

func flag(description string) fields {
	return fields{{"type", "boolean"}, {"description", description}}
}

func list(description string, more ...field) fields {
	return append(fields{
		{"type", "array"},
		{"description", description},
		{"items", fields{{"type", "string"}}},
	}, more...)
}
