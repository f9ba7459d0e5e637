package codexmmo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specLine is how a test names the behaviours that it covers, in its doc
// comment: "Spec: R001, R002".
var specLine = regexp.MustCompile(`(?m)^Spec:(.*)$`)

// specID is the id of one behaviour.
var specID = regexp.MustCompile(`\b[A-Z][0-9]{3}\b`)

// covered reads all tests of the repository and returns which cover what:
// behaviour -> "package TestName".
func covered(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	eachFile(t, "_test.go", func(name string) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Doc == nil {
				continue
			}
			for _, line := range specLine.FindAllStringSubmatch(function.Doc.Text(), -1) {
				for _, id := range specID.FindAllString(line[1], -1) {
					found[id] = append(found[id], path.Dir(filepath.ToSlash(name))+" "+function.Name.Name)
				}
			}
		}
	})
	return found
}

// behaviourRow is one row of docs/behaviours.md:
//
//	| R001 | what the product does | `core/store` TestOne, TestTwo; `cmd/codex-mmo` TestThree |
var behaviourRow = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]{3}) \| ([^|]+) \| ([^|]+) \|$`)

// TestBehaviours compares docs/behaviours.md with the tests: each row names
// exactly the tests whose comments name its id, and no id lacks a row.
func TestBehaviours(t *testing.T) {
	listed := map[string][]string{}
	for _, row := range behaviourRow.FindAllStringSubmatch(readFile(t, "docs/behaviours.md"), -1) {
		id := row[1]
		if listed[id] != nil {
			t.Errorf("docs/behaviours.md lists %s twice", id)
		}
		for _, group := range strings.Split(row[3], ";") {
			quoted, names, _ := strings.Cut(strings.TrimSpace(group), " ")
			for _, name := range strings.Split(names, ",") {
				listed[id] = append(listed[id], strings.Trim(quoted, "`")+" "+strings.TrimSpace(name))
			}
		}
	}
	tests := covered(t)
	for id, names := range tests {
		for _, name := range names {
			if !slices.Contains(listed[id], name) {
				t.Errorf("docs/behaviours.md: row %s lacks the test %s", id, name)
			}
		}
	}
	for id, names := range listed {
		for _, name := range names {
			if !slices.Contains(tests[id], name) {
				t.Errorf("docs/behaviours.md: row %s names the test %s, which doesn't exist or doesn't name %s", id, name, id)
			}
		}
	}
}

// link is a Markdown link to a file of the repository.
var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks checks that the documents' links lead somewhere.
func TestLinks(t *testing.T) {
	eachFile(t, ".md", func(name string) {
		for _, found := range link.FindAllStringSubmatch(readFile(t, name), -1) {
			target := filepath.Join(filepath.Dir(name), filepath.FromSlash(found[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, found[1])
			}
		}
	})
}

// TestArchitectureNamesEveryFolder keeps the map of the code complete.
func TestArchitectureNamesEveryFolder(t *testing.T) {
	text := readFile(t, "docs/ARCHITECTURE.md")
	for _, p := range packages(t) {
		name := p.name()
		if name == "." || len(p.GoFiles) == 0 || strings.HasSuffix(name, "/proto") {
			continue
		}
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/ARCHITECTURE.md doesn't name the package `%s`", name)
		}
	}
}

// TestDependenciesHaveReasons keeps the record of dependencies complete.
func TestDependenciesHaveReasons(t *testing.T) {
	text := readFile(t, "docs/decisions/0008-dependencies.md")
	for _, rule := range owners {
		if strings.Contains(rule.imported, ".") && !strings.Contains(text, "`"+rule.imported+"`") {
			t.Errorf("docs/decisions/0008-dependencies.md gives no reason for `%s`", rule.imported)
		}
	}
}

// TestMakefileIsSmall keeps the list of commands one that is read at a glance.
func TestMakefileIsSmall(t *testing.T) {
	targets := regexp.MustCompile(`(?m)^[a-z]+:.*## `).FindAllString(readFile(t, "Makefile"), -1)
	if len(targets) == 0 || len(targets) > 10 {
		t.Errorf("the Makefile documents %d targets, want 1 to 10", len(targets))
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// eachFile visits the repository's own files whose names end in suffix.
func eachFile(t *testing.T, suffix string, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && strings.HasSuffix(name, suffix) {
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
