package strictjson_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"object", `{"a":[1,-0.5e3,"x",true,null,{}]}`, nil},
		{"space around", " \t\r\n{} \n", nil},
		{"surrogate pair", `"\ud83d\ude00"`, nil},
		{"same key at two levels", `{"a":{"a":1}}`, nil},
		{"keys that differ in case", `{"a":1,"A":2}`, nil},
		{"tiny number", `1e-400`, nil},
		{"depth at the limit", nested(64), nil},

		{"empty", ``, strictjson.ErrSyntax},
		{"blank", "  \n", strictjson.ErrSyntax},
		{"cut", `{"a":`, strictjson.ErrSyntax},
		{"comma", `[1,]`, strictjson.ErrSyntax},
		{"bare word", `{"a":NaN}`, strictjson.ErrSyntax},
		{"infinity", `Infinity`, strictjson.ErrSyntax},
		{"leading zero", `01`, strictjson.ErrTrailing},
		{"byte order mark", "\ufeff{}", strictjson.ErrSyntax},
		{"raw control character", "\"\x01\"", strictjson.ErrSyntax},
		{"duplicate", `{"a":1,"a":2}`, strictjson.ErrDuplicate},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, strictjson.ErrDuplicate},
		{"duplicate deep", `[{"x":{"a":1,"a":1}}]`, strictjson.ErrDuplicate},
		{"lone high surrogate", `"\ud800"`, strictjson.ErrEncoding},
		{"lone low surrogate", `{"a":"\udc00"}`, strictjson.ErrEncoding},
		{"two high surrogates", `"\ud800\ud800"`, strictjson.ErrEncoding},
		{"surrogate in a key", `{"\ud800":1}`, strictjson.ErrEncoding},
		{"invalid UTF-8", "\"\xff\"", strictjson.ErrEncoding},
		{"overlong UTF-8", "\"\xc0\x80\"", strictjson.ErrEncoding},
		{"huge number", `1e400`, strictjson.ErrNumber},
		{"huge negative number", `{"a":[-1e999]}`, strictjson.ErrNumber},
		{"too deep", nested(65), strictjson.ErrDepth},
		{"far too deep", strings.Repeat("[", 200_000), strictjson.ErrDepth},
		{"two values", `{} {}`, strictjson.ErrTrailing},
		{"rubbish after", `1 x`, strictjson.ErrTrailing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := strictjson.Check([]byte(tc.in), nil)
			if !errors.Is(err, tc.want) {
				t.Errorf("Check(%.40q) = %v, want %v", tc.in, err, tc.want)
			}
		})
	}
}

func TestCheckDepthLimit(t *testing.T) {
	limits := &strictjson.Limits{Depth: 2}
	if err := strictjson.Check([]byte(`[[1]]`), limits); err != nil {
		t.Errorf("Check of depth 2 with limit 2 = %v, want nil", err)
	}
	if err := strictjson.Check([]byte(`[{"a":[]}]`), limits); !errors.Is(err, strictjson.ErrDepth) {
		t.Errorf("Check of depth 3 with limit 2 = %v, want %v", err, strictjson.ErrDepth)
	}
}

type record struct {
	Name  string            `json:"name"`
	Count uint64            `json:"count,omitempty"`
	At    *time.Time        `json:"at,omitempty"`
	List  []string          `json:"list"`
	Map   map[string]uint64 `json:"map,omitempty"`
	Inner *record           `json:"inner,omitempty"`
}

// TestNumbersKeysAndSurrogates covers reading and writing of values; the files
// of the same row belong to core/store.
//
// Spec: A064
func TestNumbersKeysAndSurrogates(t *testing.T) {
	for in, want := range map[string]error{
		`{"a":NaN}`:       strictjson.ErrSyntax,
		`{"a":Infinity}`:  strictjson.ErrSyntax,
		`{"a":1e400}`:     strictjson.ErrNumber,
		`{"a":1,"a":2}`:   strictjson.ErrDuplicate,
		`{"a":"\ud800"}`:  strictjson.ErrEncoding,
		`{"a":"\ud83dx"}`: strictjson.ErrEncoding,
	} {
		var v map[string]any
		if err := strictjson.Unmarshal([]byte(in), &v, nil); !errors.Is(err, want) {
			t.Errorf("Unmarshal(%s) = %v, want %v", in, err, want)
		}
	}
	for _, v := range []any{
		math.NaN(), math.Inf(1), map[string]any{"a": math.Inf(-1)}, []float64{math.NaN()},
	} {
		if out, err := strictjson.Marshal(v); !errors.Is(err, strictjson.ErrNumber) || out != nil {
			t.Errorf("Marshal(%v) = %q, %v, want nothing and %v", v, out, err, strictjson.ErrNumber)
		}
	}
}

func TestUnmarshal(t *testing.T) {
	var got record
	in := `{"name":"n","count":9007199254740993,"at":"2026-01-02T03:04:05Z","list":["a"],"map":{"j":1}}`
	if err := strictjson.Unmarshal([]byte(in), &got, nil); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := record{Name: "n", Count: 9007199254740993, At: &at, List: []string{"a"}, Map: map[string]uint64{"j": 1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Unmarshal differs (-want +got):\n%s", d)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     error
		text     string // must be in the error
	}{
		{"unknown field", `{"name":"n","nmae":"x"}`, strictjson.ErrUnknownField, "nmae"},
		{"unknown field deep", `{"inner":{"xyz":1}}`, strictjson.ErrUnknownField, "/inner/xyz"},
		{"other case", `{"Name":"n"}`, strictjson.ErrUnknownField, "Name"},
		{"string for number", `{"count":"1"}`, strictjson.ErrType, "/count"},
		{"fraction for integer", `{"count":1.5}`, strictjson.ErrType, "an integer from 0"},
		{"negative", `{"count":-1}`, strictjson.ErrType, "/count"},
		{"array for object", `[]`, strictjson.ErrType, "found an array"},
		{"object for array", `{"list":{}}`, strictjson.ErrType, "want an array"},
		{"not a time", `{"at":"yesterday"}`, strictjson.ErrType, "/at"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var v record
			err := strictjson.Unmarshal([]byte(tc.in), &v, nil)
			if !errors.Is(err, tc.want) {
				t.Fatalf("Unmarshal(%s) = %v, want %v", tc.in, err, tc.want)
			}
			if !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Unmarshal(%s) = %q, want %q in it", tc.in, err, tc.text)
			}
		})
	}
}

func TestErrorsHideValues(t *testing.T) {
	var v record
	err := strictjson.Unmarshal([]byte(`{"count":"s3cret"}`), &v, nil)
	if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "strictjson_test") {
		t.Errorf("error = %v, want one without the value and without Go type names", err)
	}
}

func TestAllowUnknown(t *testing.T) {
	var v record
	err := strictjson.Unmarshal([]byte(`{"name":"n","new":{"a":1}}`), &v, &strictjson.Options{AllowUnknown: true})
	if err != nil || v.Name != "n" {
		t.Errorf("Unmarshal = %+v, %v, want the known field", v, err)
	}
	err = strictjson.Unmarshal([]byte(`{"new":{"a":1,"a":1}}`), &v, &strictjson.Options{AllowUnknown: true})
	if !errors.Is(err, strictjson.ErrDuplicate) {
		t.Errorf("duplicate inside an unknown field = %v, want %v", err, strictjson.ErrDuplicate)
	}
}

func TestMarshal(t *testing.T) {
	got, err := strictjson.Marshal(record{Name: "<&>\u2028é", Map: map[string]uint64{"b": 2, "a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"name\":\"<&>\u2028é\",\"list\":[],\"map\":{\"a\":1,\"b\":2}}"
	if string(got) != want {
		t.Errorf("Marshal = %s, want %s", got, want)
	}
	if _, err := strictjson.Marshal(record{Name: "\xff"}); !errors.Is(err, strictjson.ErrEncoding) {
		t.Errorf("Marshal of broken text = %v, want %v", err, strictjson.ErrEncoding)
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `1e400`, `{} {}`, nested(70), `[1,2,{"x":null}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data, nil) != nil {
			return
		}
		// What was accepted reads, and what is written from it is accepted again.
		var v any
		if err := strictjson.Unmarshal(data, &v, nil); err != nil {
			t.Fatalf("accepted by Check, refused by Unmarshal: %v", err)
		}
		out, err := strictjson.Marshal(v)
		if err != nil {
			t.Fatalf("Marshal: %v", err)
		}
		if err := strictjson.Check(out, nil); err != nil {
			t.Fatalf("Check of our own output %q: %v", out, err)
		}
	})
}
