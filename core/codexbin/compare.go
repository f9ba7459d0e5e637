package codexbin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxSchemaFile bounds one schema file, in bytes; 0.171.0's largest has 1.3 MB.
const maxSchemaFile = 16 << 20

// schemaNode is what we read of a JSON Schema.
type schemaNode struct {
	Ref         string                 `json:"$ref"`
	Type        any                    `json:"type"` // string or list of strings
	Enum        []any                  `json:"enum"`
	Properties  map[string]*schemaNode `json:"properties"`
	OneOf       []*schemaNode          `json:"oneOf"`
	AnyOf       []*schemaNode          `json:"anyOf"`
	AllOf       []*schemaNode          `json:"allOf"`
	Definitions map[string]*schemaNode `json:"definitions"`
}

// UnmarshalJSON takes the schemas true and false, which admit anything and
// nothing, as well as objects.
func (n *schemaNode) UnmarshalJSON(data []byte) error {
	type plain schemaNode
	switch string(data) {
	case "true":
		return nil
	case "false":
		n.Type = []any{}
		return nil
	}
	return json.Unmarshal(data, (*plain)(n))
}

// document is one schema file.
type document struct{ root *schemaNode }

func readDocument(path string) (document, error) {
	info, err := os.Stat(path)
	if err != nil {
		return document{}, err
	}
	if info.Size() > maxSchemaFile {
		return document{}, fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return document{}, err
	}
	var d document
	if err := json.Unmarshal(data, &d.root); err != nil {
		return document{}, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// missing lists what we use and the schema in dir does not have.
func missing(dir string) ([]string, error) {
	docs := map[string]document{} // file -> its schema
	open := func(file string) (document, error) {
		if d, ok := docs[file]; ok {
			return d, nil
		}
		d, err := readDocument(filepath.Join(dir, filepath.FromSlash(file)))
		docs[file] = d
		return d, err
	}
	var lacks []string
	for line := range strings.Lines(usesText) {
		words := strings.Fields(line)
		what, name, fields := words[0], words[1], words[2:]
		file := map[string]string{
			"request": "ClientRequest.json", "notice": "ServerNotification.json",
			"question": "ServerRequest.json", "answer": name,
		}[what]
		d, err := open(file)
		if os.IsNotExist(err) && what == "answer" {
			lacks = append(lacks, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		node := d.root
		if what != "answer" {
			if node = d.params(name); node == nil {
				lacks = append(lacks, name)
				continue
			}
		}
		for _, field := range fields {
			path, shape, _ := strings.Cut(field, ":")
			if !d.admits(node, strings.Split(path, "."), shape) {
				lacks = append(lacks, name+" "+field)
			}
		}
	}
	return lacks, nil
}

// params returns the schema of a method's params, or nil when the file has no
// such method.
func (d document) params(method string) *schemaNode {
	for _, variant := range d.root.OneOf {
		variant = d.resolve(variant)
		name := d.resolve(variant.Properties["method"])
		if name == nil || !slices.Contains(name.Enum, any(method)) {
			continue
		}
		if p := variant.Properties["params"]; p != nil {
			return p
		}
		return &schemaNode{}
	}
	return nil
}

// resolve follows references within the file.
func (d document) resolve(n *schemaNode) *schemaNode {
	for range 32 {
		if n == nil || n.Ref == "" {
			return n
		}
		n = d.root.Definitions[strings.TrimPrefix(n.Ref, "#/definitions/")]
	}
	return nil // a circle
}

// admits reports whether the schema has the path and a value of the shape may
// be there.
func (d document) admits(n *schemaNode, path []string, shape string) bool {
	return d.search(n, path, shape, 0)
}

func (d document) search(n *schemaNode, path []string, shape string, depth int) bool {
	n = d.resolve(n)
	if n == nil || depth > 32 {
		return false
	}
	for _, list := range [][]*schemaNode{n.OneOf, n.AnyOf, n.AllOf} {
		for _, option := range list {
			if d.search(option, path, shape, depth+1) {
				return true
			}
		}
	}
	if len(path) > 0 {
		next, ok := n.Properties[path[0]]
		return ok && d.search(next, path[1:], shape, depth+1)
	}
	switch t := n.Type.(type) {
	case string:
		return t == shape
	case []any:
		return slices.Contains(t, any(shape))
	}
	// Without a type it admits anything, unless it was put together of options.
	return len(n.OneOf)+len(n.AnyOf)+len(n.AllOf) == 0 && len(n.Enum) == 0
}
