package modeltest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
)

// TestParseErrors: every error names the line, the fault and the remedy.
func TestParseErrors(t *testing.T) {
	const head = "model m\nstep\n"
	for _, tt := range []struct {
		name, script, want string
	}{
		{"empty", "# nothing\n", `script line 2: the script has no model; begin the script with "model KEY"`},
		{"step first", "step\n", `script line 1: step stands before any model; begin the script with "model KEY"`},
		{"action first", "model m\nsay \"x\"\n", `script line 2: say stands outside a step; put a line "step" before it`},
		{"unknown statement", "model m\nsing\n", `script line 2: unknown statement "sing"`},
		{"unknown action", head + "sing\n", `script line 3: unknown action "sing"`},
		{"model twice", head + "say \"x\"\nmodel m\n", "script line 4: model m was begun in line 1 already"},
		{"model without steps", "model m\n", "script line 1: model m has no steps"},
		{"empty step", head + "step\nsay \"x\"\n", "script line 2: the step does nothing"},
		{"empty rule", head + "say \"x\"\nwhen user starts \"y\"\n", `script line 4: the rule "when user starts \"y\"" has no steps`},
		{"unquoted", head + "say hello\n", `script line 3: a quoted text is expected at "hello"`},
		{"open block", head + "say <<END\nhello\n", "script line 3: the block <<END has no end; end it with a line that holds END alone"},
		{"open JSON", head + "call f {\"a\": 1\n", "script line 3: the JSON object has no end; close its braces"},
		{"bad JSON", head + "call f {a: 1}\n", "script line 3: the JSON object can't be read"},
		{"no JSON", head + "call f\n", `script line 3: a JSON object is expected at ""`},
		{"text behind JSON", head + "call f {} x\n", `script line 3: unexpected text "x"`},
		{"condition", "model m\nwhen moon full\n", `script line 2: unknown condition "moon full"`},
		{"joint", "model m\nwhen tool a or tool b\n", `script line 2: unexpected text after a condition: "or"`},
		{"goal", head + "goal done\n", `script line 3: unknown goal status "done"`},
		{"delay", head + "delay soon\n", `script line 3: "soon" is no duration`},
		{"status", head + "error 200 ok \"x\"\n", `script line 3: "200" is no HTTP status of an error`},
		{"option", head + "error 429 limit \"x\" wait=3\n", `script line 3: unknown option "wait=3"`},
		{"usage", head + "usage input=many\n", `script line 3: "input=many" is no count of tokens`},
		{"cut", head + "cut 3 words\n", `script line 3: "3 words" is no place to cut`},
		{"after cut", head + "cut\nsay \"x\"\n", "script line 2: an action follows an error or a cut of the step"},
		{"error after output", head + "say \"x\"\nerror 500 e \"x\"\n", "script line 2: an error with an HTTP status can't follow output"},
		{"repeat first", "model m\nrepeat\n", "script line 2: repeat stands before any step"},
		{"finish", head + "finish early\n", `script line 3: unknown finish reason "early"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := modeltest.Parse(tt.script)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Fatalf("Parse = %v, want %s…", err, tt.want)
			}
			if core.KindOf(err) != core.KindValue {
				t.Errorf("KindOf = %s, want %s", core.KindOf(err), core.KindValue)
			}
		})
	}
}

// TestDemoScriptParses keeps the bundled demo's script valid.
func TestDemoScriptParses(t *testing.T) {
	text, err := os.ReadFile("../../profiles/offline-demo/offline.script")
	if err != nil {
		t.Fatal(err)
	}
	script, err := modeltest.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"offline-checker", "offline-lead", "offline-reader", "offline-writer"}
	if diff := cmp.Diff(want, script.Models()); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: no text panics, and an error always names a line.
func FuzzParse(f *testing.F) {
	f.Add("model m\nstep\nsay \"x\"\n")
	f.Add("model m\nstep\ncall a b {\"c\":\n [1]}\nusage input=1\nwhen user starts \"x\" and not tool f\nstep\nsay <<END\n a\nEND\nrepeat\n")
	f.Add("model m\nstep\nerror 429 limit \"x\" code=c retry-after=1\n")
	f.Add("model m\nstep\nsay \"x\"\ncut 3 deltas\n")
	f.Fuzz(func(t *testing.T, text string) {
		script, err := modeltest.Parse(text)
		if err != nil && !strings.Contains(err.Error(), "line ") {
			t.Errorf("Parse error names no line: %v", err)
		}
		if err == nil && len(script.Models()) == 0 {
			t.Error("Parse took a script without models")
		}
	})
}
