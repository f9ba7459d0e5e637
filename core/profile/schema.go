package profile

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// SchemaNames are the formats that have a JSON Schema.
var SchemaNames = []string{"profile", "catalog", "tool-mcp", "settings"}

// Schema returns the JSON Schema of a format, for editors that complete and
// check TOML by one. It is made of the same struct tags that the decoder goes
// by.
func Schema(name string) ([]byte, error) {
	formats := map[string]any{"profile": profileFile{}, "catalog": catalogFile{}, "tool-mcp": toolFile{}, "settings": settingsFile{}}
	format, ok := formats[name]
	if !ok {
		return nil, core.Errorf(core.KindValue, "there is no format %q", name).WithRemedy("choose one of %s", strings.Join(SchemaNames, ", "))
	}
	schema := schemaOf(reflect.TypeOf(format), "")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "codex-mmo " + name + ".toml"
	data, err := json.MarshalIndent(schema, "", "  ")
	return append(data, '\n'), err
}

func schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	schema := map[string]any{}
	if doc := tag.Get("doc"); doc != "" {
		schema["description"] = doc
	}
	switch t.Kind() {
	case reflect.Struct:
		object(schema, t)
	case reflect.Map:
		schema["type"] = "object"
		if t.Elem().Kind() != reflect.Interface {
			schema["additionalProperties"] = schemaOf(t.Elem(), "")
		}
	case reflect.Slice:
		item := map[string]any{"type": "string"}
		addEnum(item, tag)
		schema["type"], schema["items"], schema["uniqueItems"] = "array", item, true
	case reflect.String:
		schema["type"] = "string"
		addEnum(schema, tag)
	case reflect.Bool:
		schema["type"] = "boolean"
	case reflect.Float64:
		schema["type"] = "number"
	default:
		schema["type"] = "integer"
	}
	for key, word := range map[string]string{"minimum": "min", "maximum": "max"} {
		if n, err := strconv.ParseFloat(tag.Get(word), 64); err == nil {
			schema[key] = n
		}
	}
	if text := tag.Get("default"); text != "" {
		schema["default"] = defaultOf(t.Kind(), text)
	}
	return schema
}

func object(schema map[string]any, t reflect.Type) {
	properties := map[string]any{}
	var required []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		properties[name] = schemaOf(f.Type, f.Tag)
		if f.Tag.Get("required") != "" {
			required = append(required, name)
		}
	}
	schema["type"], schema["properties"], schema["additionalProperties"] = "object", properties, false
	if required != nil {
		schema["required"] = required
	}
}

func addEnum(schema map[string]any, tag reflect.StructTag) {
	if words := tag.Get("enum"); words != "" {
		schema["enum"] = strings.Split(words, ",")
	}
}

func defaultOf(kind reflect.Kind, text string) any {
	switch kind {
	case reflect.Bool:
		return text == "true"
	case reflect.String:
		return text
	}
	n, _ := strconv.ParseFloat(text, 64) // the tags are ours
	return n
}
