package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// DefaultDepth is the deepest nesting of objects and arrays that is accepted
// when no other limit is given.
const DefaultDepth = 64

// The reasons for a refusal, for errors.Is. Every error of this package wraps
// exactly one of them.
var (
	ErrSyntax       = errors.New("not valid JSON")
	ErrDuplicate    = errors.New("duplicate key")
	ErrEncoding     = errors.New("text is not valid Unicode")
	ErrNumber       = errors.New("number is not finite")
	ErrDepth        = errors.New("nested too deeply")
	ErrTrailing     = errors.New("data after the JSON value")
	ErrUnknownField = errors.New("unknown field")
	ErrType         = errors.New("wrong type")
)

// Error tells what is wrong with a document and where.
type Error struct {
	Reason error  // one of the Err values of this package
	Path   string // JSON pointer (RFC 6901) to the place; empty at the root
	Offset int64  // bytes from the start of the document; -1 when unknown
	Detail string // more words, may be empty; never a value of the document
}

// Error returns one line that names the reason and the place.
func (e *Error) Error() string {
	text := e.Reason.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Path != "" {
		text += fmt.Sprintf(" at %q", e.Path)
	}
	if e.Offset >= 0 {
		text += fmt.Sprintf(" (byte %d)", e.Offset)
	}
	return text
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// Limits bounds what Check accepts. A nil *Limits means the defaults.
type Limits struct {
	Depth int // deepest nesting of objects and arrays; 0 means DefaultDepth
}

func (l *Limits) depth() int {
	if l == nil || l.Depth <= 0 {
		return DefaultDepth
	}
	return l.Depth
}

// Check reports whether data is exactly one JSON value: no duplicate keys, no
// invalid UTF-8, no lone surrogate, no number that a float64 can't hold, no
// nesting beyond the limit, nothing but white space after it. The error is an
// *Error.
func Check(data []byte, limits *Limits) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	deepest := limits.depth()
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxError(data, err, dec.InputOffset())
		}
		if dec.StackDepth() > deepest {
			return &Error{
				Reason: ErrDepth, Path: string(dec.StackPointer()), Offset: dec.InputOffset(),
				Detail: fmt.Sprintf("at most %d levels are accepted", deepest),
			}
		}
		if token.Kind() == '0' && !finite(token.String()) {
			return &Error{Reason: ErrNumber, Path: string(dec.StackPointer()), Offset: dec.InputOffset()}
		}
		if dec.StackDepth() == 0 {
			return checkEnd(data, dec.InputOffset())
		}
	}
}

// finite reports whether a JSON number literal fits a float64. JSON itself has
// no bound, so 1e400 is valid to the scanner and infinite to most readers.
func finite(literal string) bool {
	f, err := strconv.ParseFloat(literal, 64)
	return err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

func checkEnd(data []byte, offset int64) error {
	rest := bytes.TrimLeft(data[offset:], " \t\r\n")
	if len(rest) == 0 {
		return nil
	}
	return &Error{Reason: ErrTrailing, Offset: int64(len(data) - len(rest))}
}

// syntaxError turns an error of the scanner into ours, without its Go words.
func syntaxError(data []byte, err error, offset int64) error {
	out := &Error{Reason: ErrSyntax, Offset: offset}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		out.Offset = syntactic.ByteOffset
		out.Path = string(syntactic.JSONPointer)
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		out.Reason = ErrDuplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		out.Detail = "the document ends too early"
	case errors.Is(err, io.EOF):
		out.Detail = "the document is empty"
	case forgivenAt(data, out.Offset):
		out.Reason = ErrEncoding
	}
	return out
}

// forgivenAt reports whether a scanner that takes broken text passes the place
// where the strict one stopped. The scanner has no error value for broken text,
// so this is how it is told from broken syntax.
func forgivenAt(data []byte, offset int64) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data),
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		_, err := dec.ReadToken()
		var syntactic *jsontext.SyntacticError
		switch {
		case errors.As(err, &syntactic):
			return syntactic.ByteOffset > offset
		case err != nil || dec.StackDepth() == 0 && dec.InputOffset() > offset:
			return true
		}
	}
}
