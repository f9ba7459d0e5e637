// Package codexmmo_test holds the tests of the repository as a whole: who may
// import whom, and that the documents say what the code does.
package codexmmo_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/codex-mmo/codex-mmo"

// layer says which of our packages some of our packages may import.
type layer struct {
	who string   // a package; with /... it and all below it; with /* only those below
	may []string // patterns of the same form
	why string
}

// coreOrder lists the packages of the core bottom-up: each may import those
// above it in this list, never one below.
var coreOrder = []string{
	"core",
	"core/process",
	"core/strictjson",
	"core/modeltest",
	"core/dialect",
	"core/smoke",
	"core/contract",
	"core/folders",
	"core/access",
	"core/store",
	"core/trace",
	"core/profile",
	"core/codexbin",
	"core/codexhome",
	"core/admission",
	"core/workspace",
	"core/control",
	"core/doctor",
	"core/pluginhost",
	"core/supervisor",
}

// layers are the rules above and beside the core. The first that fits holds.
var layers = []layer{
	{
		"core/testkit",
		[]string{"core/process"},
		"tests of every layer stand on the kit, so it stands on almost nothing",
	},
	{
		"core/control/controltest",
		[]string{"core", "core/access", "core/control"},
		"a stand-in for a supervisor, for tests of its clients",
	},
	{
		"plugins/...",
		[]string{"plugins/..."},
		"authors of plugins compile the contracts and nothing else of ours",
	},
	{
		"hostplugin/...",
		[]string{"hostplugin/...", "plugins/...", "core", "core/process"},
		"a host is a dumb driver: it knows no profile, admission or contract",
	},
	{
		"gatewayplugin/...",
		[]string{"gatewayplugin/...", "plugins/...", "core", "core/process", "core/modeltest", "core/dialect"},
		"the gateway belongs to no session",
	},
	{
		"mcpserver/...",
		[]string{"mcpserver/...", "core", "core/access", "core/control", "core/strictjson"},
		"the MCP process is thin: it asks the control API",
	},
	{
		"profiles",
		nil,
		"bundled profiles are data",
	},
	{
		"cmd/codex-mmo",
		[]string{"core/...", "hostplugin", "gatewayplugin", "mcpserver", "plugins", "plugins/sdk", "profiles"},
		"the command wires everything",
	},
	{
		"cmd/mmo-bench",
		[]string{"core", "core/admission", "core/control", "core/folders", "core/process", "core/pluginhost", "core/store", "plugins/base/proto", "plugins/gateway/proto"},
		"the benchmark measures from outside, as a user does, and plugins and admissions as a supervisor does",
	},
}

// alsoBelow adds to coreOrder what single core packages import from beside
// the core.
var alsoBelow = map[string][]string{ // core package -> patterns
	"core/pluginhost": {"plugins/..."},
	"core/supervisor": {"plugins/..."},
}

// testsMay adds what the tests of single packages may import.
var testsMay = map[string][]string{
	"profiles": {"core/profile", "gatewayplugin", "plugins/base/proto", "plugins/gateway/proto"}, // what compiles and what serves them
}

// forTests are packages of ours that any test may import beside what its
// package may.
var forTests = []string{
	"core/testkit", "core/process", "core/modeltest", "core/control/controltest", "plugins/plugintest", "hostplugin/appserver/appservertest", "profiles",
}

// owner says where an import from outside may stand.
type owner struct {
	imported  string   // path of a package or a prefix of it
	in        []string // patterns; nil: nowhere in the product
	testsOnly bool     // any test may import it, nothing else
}

// owners lists every import from outside the standard library, and those of
// the standard library that have one place. A new dependency needs a row here
// and its reason in docs/decisions/0008-dependencies.md.
var owners = []owner{
	{imported: "database/sql", in: []string{"core/store", "core/testkit"}},
	{imported: "modernc.org/sqlite", in: []string{"core/store"}},
	{imported: "github.com/mark3labs/mcp-go", in: []string{"mcpserver/...", "cmd/mmo-bench"}},
	{imported: "github.com/santhosh-tekuri/jsonschema", in: []string{"core/contract", "mcpserver/..."}},
	{imported: "github.com/gorilla/websocket", in: []string{"hostplugin/appserver/..."}},
	{imported: "github.com/pelletier/go-toml", in: []string{"core/profile", "core/codexhome"}},
	{imported: "github.com/go-json-experiment/json", in: []string{"core/strictjson", "gatewayplugin/responses", "gatewayplugin/translate"}},
	{imported: "github.com/hashicorp/go-plugin", in: []string{"plugins/...", "core/pluginhost"}},
	{imported: "github.com/hashicorp/go-hclog", in: []string{"plugins/...", "core/pluginhost"}},
	{imported: "google.golang.org/grpc", in: []string{"plugins/...", "core/pluginhost", "core/supervisor", "hostplugin/...", "gatewayplugin/..."}},
	{imported: "google.golang.org/protobuf", in: []string{"plugins/...", "core/supervisor", "hostplugin/...", "gatewayplugin/..."}},
	{imported: "go.opentelemetry.io", in: []string{"gatewayplugin/spans"}},
	{imported: "github.com/spf13/cobra", in: []string{"cmd/codex-mmo"}},
	{imported: "github.com/gofrs/flock", in: []string{"core/supervisor", "cmd/codex-mmo"}},
	{imported: "golang.org/x/sys", in: []string{"core/*", "hostplugin/...", "gatewayplugin/...", "cmd/..."}},
	{imported: "github.com/google/go-cmp", testsOnly: true},
	{imported: "github.com/rogpeppe/go-internal", testsOnly: true},
	{imported: "go.uber.org/goleak", testsOnly: true},
	{imported: "pgregory.net/rapid", testsOnly: true},
}

// listed is what the test needs of `go list -json`.
type listed struct {
	ImportPath                         string
	Doc                                string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

// name is the path within this module; "." is its root.
func (p listed) name() string {
	if p.ImportPath == modulePath {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, modulePath+"/")
}

func (p listed) tests() []string { return slices.Concat(p.TestImports, p.XTestImports) }

// packages lists all packages of this module.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// TestLayers holds every import between our packages against the rules.
func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		if p.name() == "." {
			continue // this test's own package may look at all
		}
		rule, ok := layerOf(p.name())
		if !ok {
			t.Errorf("%s stands in no layer: add it to coreOrder or layers", p.name())
			continue
		}
		for _, imported := range ours(p.Imports) {
			switch {
			case imported == "core/testkit":
				t.Errorf("%s imports %s, which is for tests alone", p.name(), imported)
			case !matchAny(rule.may, imported):
				t.Errorf("%s imports %s; it may import %s: %s", p.name(), imported, strings.Join(rule.may, ", "), rule.why)
			}
		}
		for _, imported := range ours(p.tests()) {
			if imported != p.name() && !matchAny(rule.may, imported) && !slices.Contains(forTests, imported) && !slices.Contains(testsMay[p.name()], imported) {
				t.Errorf("a test of %s imports %s; it may import %s and what is made for tests: %s",
					p.name(), imported, strings.Join(rule.may, ", "), rule.why)
			}
		}
	}
}

// TestOwners holds every import from outside against its places.
func TestOwners(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if rule, ok := ownerOf(imported); ok && !matchAny(rule.in, p.name()) {
				t.Errorf("%s imports %s; only %s may", p.name(), imported, places(rule))
			} else if !ok && external(imported) {
				t.Errorf("%s imports %s, which no row of owners names", p.name(), imported)
			}
		}
		for _, imported := range p.tests() {
			if rule, ok := ownerOf(imported); ok && !rule.testsOnly && !matchAny(rule.in, p.name()) {
				t.Errorf("a test of %s imports %s; only %s may", p.name(), imported, places(rule))
			} else if !ok && external(imported) {
				t.Errorf("a test of %s imports %s, which no row of owners names", p.name(), imported)
			}
		}
	}
}

// TestOwnersAreUsed keeps owners true: something in each place of a row imports
// what the row names. A place whose package does not exist grants nothing.
func TestOwnersAreUsed(t *testing.T) {
	all := packages(t)
	for _, rule := range owners {
		imports := func(p listed) bool {
			return slices.ContainsFunc(slices.Concat(p.Imports, p.tests()), rule.covers)
		}
		if !slices.ContainsFunc(all, imports) {
			t.Errorf("owners: nothing imports %s", rule.imported)
			continue
		}
		for _, place := range rule.in {
			in := func(p listed) bool { return match(place, p.name()) }
			if slices.ContainsFunc(all, in) && !slices.ContainsFunc(all, func(p listed) bool { return in(p) && imports(p) }) {
				t.Errorf("owners: nothing in %s imports %s", place, rule.imported)
			}
		}
	}
}

// TestPackages checks what holds for each package by itself.
func TestPackages(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment", p.name())
		}
		if base := path.Base(p.name()); slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"}, base) {
			t.Errorf("%s: a package is named for its one job, not %q", p.name(), base)
		}
	}
}

// TestRulesBite proves on made-up imports that the rules refuse what they
// should.
func TestRulesBite(t *testing.T) {
	tests := []struct {
		who, imported string
		ok            bool
	}{
		{"core/store", "core/folders", true},
		{"core/folders", "core/store", false},
		{"core/process", "core/supervisor", false},
		{"core", "core/process", false},
		{"core/supervisor", "plugins/host/proto", true},
		{"core/store", "plugins", false},
		{"mcpserver", "core/control", true},
		{"mcpserver", "core/supervisor", false},
		{"hostplugin/appserver", "core/process", true},
		{"hostplugin", "gatewayplugin", false},
		{"gatewayplugin", "core/modeltest", true},
		{"hostplugin", "core/modeltest", false},
		{"plugins/sdk", "plugins", true},
		{"plugins/sdk", "core/process", false},
		{"core/testkit", "core/process", true},
		{"core/testkit", "core/store", false},
		{"cmd/codex-mmo", "core/supervisor", true},
		{"cmd/mmo-bench", "core/supervisor", false},
		{"core/store", "modernc.org/sqlite", true},
		{"core/supervisor", "modernc.org/sqlite/lib", false},
		{"mcpserver", "github.com/mark3labs/mcp-go/server", true},
		{"core/control", "github.com/mark3labs/mcp-go/mcp", false},
		{"core/workspace", "core/store", true},
		{"core/workspace", "core/supervisor", false},
		{"hostplugin", "github.com/gorilla/websocket", false},
		{"core", "golang.org/x/sys/unix", false},
		{"core/process", "golang.org/x/sys/unix", true},
		{"core/process", "github.com/google/go-cmp/cmp", false},
	}
	for _, test := range tests {
		var ok bool
		if rule, external := ownerOf(test.imported); external {
			ok = matchAny(rule.in, test.who)
		} else {
			rule, _ := layerOf(test.who)
			ok = matchAny(rule.may, test.imported)
		}
		if ok != test.ok {
			t.Errorf("%s may import %s = %v, want %v", test.who, test.imported, ok, test.ok)
		}
	}
}

// layerOf returns the rule of a package of ours.
func layerOf(name string) (layer, bool) {
	if i := slices.Index(coreOrder, name); i >= 0 {
		may := slices.Concat(coreOrder[:i], alsoBelow[name])
		return layer{name, may, "the core imports downwards only; see coreOrder"}, true
	}
	for _, rule := range layers {
		if match(rule.who, name) {
			return rule, true
		}
	}
	return layer{}, false
}

func ownerOf(imported string) (owner, bool) {
	if i := slices.IndexFunc(owners, func(rule owner) bool { return rule.covers(imported) }); i >= 0 {
		return owners[i], true
	}
	return owner{}, false
}

// covers reports whether the row is about an import.
func (o owner) covers(imported string) bool {
	return imported == o.imported || strings.HasPrefix(imported, o.imported+"/")
}

func places(rule owner) string {
	if rule.testsOnly {
		return "tests"
	}
	return strings.Join(rule.in, ", ")
}

// external reports whether a path is neither ours nor the standard library's.
func external(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && !strings.HasPrefix(imported, modulePath)
}

// ours returns the imports from this module, as paths within it.
func ours(imports []string) []string {
	var own []string
	for _, imported := range imports {
		if name, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
			own = append(own, name)
		}
	}
	return own
}

// match reports whether a package is meant by a pattern.
func match(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	if prefix, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(name, prefix+"/")
	}
	return pattern == name
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, name) })
}
