package strictjson

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Options changes how Unmarshal reads. A nil *Options means the strictest.
type Options struct {
	AllowUnknown bool // ignore keys that the Go value has no field for
	Limits       *Limits
}

// Unmarshal checks data like Check and stores it in the value v points to.
// Keys match in exact case; a key without a field is refused unless
// opts.AllowUnknown is set. The error is an *Error, and v is not to be used.
func Unmarshal(data []byte, v any, opts *Options) error {
	if opts == nil {
		opts = &Options{}
	}
	if err := Check(data, opts.Limits); err != nil {
		return err
	}
	err := json.Unmarshal(data, v,
		json.RejectUnknownMembers(!opts.AllowUnknown),
		json.MatchCaseInsensitiveNames(false))
	if err != nil {
		return decodeError(err)
	}
	return nil
}

// decodeError turns an error of the decoder into ours, without Go type names
// and without the offending value, which may be a secret.
func decodeError(err error) error {
	out := &Error{Reason: ErrType, Offset: -1}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return out
	}
	out.Path = string(semantic.JSONPointer)
	out.Offset = semantic.ByteOffset
	switch {
	case errors.Is(semantic.Err, json.ErrUnknownName):
		out.Reason = ErrUnknownField
		out.Detail = semantic.JSONPointer.LastToken()
	case semantic.GoType != nil && semantic.JSONKind != 0:
		out.Detail = fmt.Sprintf("found %s, want %s", kindName(semantic.JSONKind), typeName(semantic.GoType))
	}
	return out
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	}
	return "null"
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	if strings.HasSuffix(t.String(), "time.Time") {
		return "an RFC 3339 time"
	}
	return "an object"
}

// Marshal writes v as compact JSON on one line: no HTML escapes, map keys
// sorted, nil slices and maps as [] and {}. It fails on NaN, infinities and
// text that is not UTF-8, so that nothing is written that Check would refuse.
//
// Struct tags mean what they mean to encoding/json, omitempty included.
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v,
		json.Deterministic(true),
		jsonv1.OmitEmptyWithLegacySemantics(true),
		jsontext.EscapeForHTML(false))
	if err != nil {
		return nil, encodeError(err)
	}
	return data, nil
}

func encodeError(err error) error {
	out := &Error{Reason: ErrType, Offset: -1}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		out.Path = string(semantic.JSONPointer)
		if t := semantic.GoType; t != nil && (t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32) {
			out.Reason = ErrNumber
		}
	case errors.As(err, &syntactic):
		out.Reason = ErrEncoding
		out.Path = string(syntactic.JSONPointer)
	}
	return out
}
