package codexbin

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// schema is a protocol with everything that the list of uses names, made from
// the list itself: of each file its text.
func schema() map[string]string {
	files := map[string][]string{} // file -> variants or properties
	for line := range strings.Lines(usesText) {
		words := strings.Fields(line)
		properties := tree(words[2:])
		switch words[0] {
		case "answer":
			files[words[1]] = append(files[words[1]], properties)
			continue
		case "request":
			files["ClientRequest.json"] = append(files["ClientRequest.json"], variant(words[1], properties))
		case "notice":
			files["ServerNotification.json"] = append(files["ServerNotification.json"], variant(words[1], properties))
		case "question":
			files["ServerRequest.json"] = append(files["ServerRequest.json"], variant(words[1], properties))
		}
	}
	out := map[string]string{}
	for file, parts := range files {
		if strings.HasPrefix(file, "v2/") {
			out[file] = `{"properties":{` + parts[0] + `}}`
			continue
		}
		out[file] = `{"oneOf":[` + strings.Join(parts, ",") + `],"definitions":{"Text":{"type":["null","string"]}}}`
	}
	return out
}

func variant(method, properties string) string {
	return `{"properties":{"method":{"enum":["` + method + `"]},"params":{"properties":{` + properties + `}}}}`
}

// tree turns "a.b:string" into nested properties.
func tree(fields []string) string {
	heads := map[string][]string{} // first name -> the rest of its paths
	for _, field := range fields {
		path, shape, _ := strings.Cut(field, ":")
		head, rest, deeper := strings.Cut(path, ".")
		if deeper {
			heads[head] = append(heads[head], rest+":"+shape)
		} else {
			heads[head] = append(heads[head], ":"+shape)
		}
	}
	var parts []string
	for _, head := range slices.Sorted(maps.Keys(heads)) {
		rest := heads[head]
		if shape, leaf := strings.CutPrefix(rest[0], ":"); leaf {
			parts = append(parts, `"`+head+`":{"type":"`+shape+`"}`)
			continue
		}
		parts = append(parts, `"`+head+`":{"properties":{`+tree(rest)+`}}`)
	}
	return strings.Join(parts, ",")
}

func TestMissing(t *testing.T) {
	const permissions = `"permissions":{"type":"string"}`
	for name, tc := range map[string]struct {
		file, from, to string
		want           []string
	}{
		"whole":              {"ClientRequest.json", "", "", nil},
		"nullable":           {"ClientRequest.json", `"name":{"type":"string"}`, `"name":{"type":["string","null"]}`, nil},
		"either":             {"ClientRequest.json", `"name":{"type":"string"}`, `"name":{"anyOf":[{"$ref":"#/definitions/Text"},{"type":"null"}]}`, nil},
		"anything":           {"ClientRequest.json", `"name":{"type":"string"}`, `"name":true`, nil},
		"method gone":        {"ClientRequest.json", `"turn/steer"`, `"turn/push"`, []string{"turn/steer"}},
		"field gone":         {"ClientRequest.json", permissions, `"rights":{"type":"string"}`, []string{"thread/start permissions:string", "thread/resume permissions:string", "thread/fork permissions:string", "turn/start permissions:string"}},
		"other shape":        {"ClientRequest.json", `"name":{"type":"string"}`, `"name":{"type":"object"}`, []string{"thread/name/set name:string"}},
		"never":              {"ClientRequest.json", `"name":{"type":"string"}`, `"name":false`, []string{"thread/name/set name:string"}},
		"circle":             {"ClientRequest.json", `"Text":{"type":["null","string"]}`, `"Text":{"$ref":"#/definitions/Text"}`, nil},
		"into the circle":    {"ClientRequest.json", `"name":{"type":"string"}`, `"name":{"$ref":"#/definitions/Loop"}`, []string{"thread/name/set name:string"}},
		"dangling":           {"ClientRequest.json", `"name":{"type":"string"}`, `"name":{"$ref":"#/definitions/None"}`, []string{"thread/name/set name:string"}},
		"notice gone":        {"ServerNotification.json", `"turn/completed"`, `"turn/ended"`, []string{"turn/completed"}},
		"notice's field":     {"ServerNotification.json", `"willRetry":{"type":"boolean"}`, `"willRetry":{"type":"string"}`, []string{"error willRetry:boolean"}},
		"question gone":      {"ServerRequest.json", `"item/tool/call"`, `"item/tool/use"`, []string{"item/tool/call"}},
		"echo gone":          {"v2/ThreadForkResponse.json", `"activePermissionProfile"`, `"profile"`, []string{"v2/ThreadForkResponse.json activePermissionProfile.id:string"}},
		"answer's file away": {"v2/TurnSteerResponse.json", "", "-", []string{"v2/TurnSteerResponse.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range schema() {
				if file == tc.file && tc.to == "-" {
					continue
				}
				if file == tc.file {
					if !strings.Contains(text, tc.from) {
						t.Fatalf("%s has no %q", file, tc.from)
					}
					text = strings.ReplaceAll(text, tc.from, tc.to)
					text = strings.ReplaceAll(text, `"definitions":{`, `"definitions":{"Loop":{"anyOf":[{"$ref":"#/definitions/Loop"}]},`)
				}
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := missing(dir)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("missing = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	dir := t.TempDir()
	if _, err := missing(dir); err == nil {
		t.Error("missing of an empty folder = nil, want an error")
	}
	if err := os.WriteFile(filepath.Join(dir, "ClientRequest.json"), []byte("<html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := missing(dir); err == nil {
		t.Error("missing of no JSON = nil, want an error")
	}
}
