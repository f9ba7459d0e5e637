package profile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decoder puts a tree into structs and tells everything that does not fit.
type decoder struct {
	problems *Problems
	retired  map[string]string // key that once was -> what to write instead
}

// decode fills the struct that into points to from a table. Fields are named by
// their toml tag.
func (d *decoder) decode(t *tree, into any) {
	d.table(t, reflect.ValueOf(into).Elem(), nil)
}

func (d *decoder) bad(t *tree, path []string, wrong, right string) {
	d.problems.add(Problem{File: t.origin.File, Line: t.origin.Line, Key: joinKey(path), Wrong: wrong, Right: right})
}

func (d *decoder) table(t *tree, v reflect.Value, path []string) {
	fields := map[string]int{}
	var known []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("toml")
		fields[name] = i
		known = append(known, name)
	}
	for _, key := range t.sorted() {
		sub, here := t.keys[key], append(slices.Clone(path), key)
		i, ok := fields[key]
		if !ok {
			d.unknown(sub, here, key, known)
			continue
		}
		d.value(sub, v.Field(i), here)
		d.bounds(sub, v.Type().Field(i).Tag, here)
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name := f.Tag.Get("toml"); f.Tag.Get("required") != "" && t.keys[name] == nil {
			d.bad(t, append(slices.Clone(path), name), "is missing", f.Tag.Get("doc"))
		}
	}
}

// bounds checks what stands at a place against its field's enum, min and max.
func (d *decoder) bounds(t *tree, tag reflect.StructTag, path []string) {
	if words := tag.Get("enum"); words != "" {
		known := strings.Split(words, ",")
		values, ok := t.value.([]any)
		if !ok {
			values = []any{t.value}
		}
		for _, v := range values {
			if text, ok := v.(string); ok && !slices.Contains(known, text) {
				d.bad(t, path, "is "+quote(text), oneOf(known))
			}
		}
	}
	var number float64
	switch got := t.value.(type) {
	case int64:
		number = float64(got)
	case float64:
		number = got
	case string:
		if got == "" && tag.Get("required") != "" {
			d.bad(t, path, "is empty", tag.Get("doc"))
		}
		return
	default:
		return
	}
	low, lowErr := strconv.ParseFloat(tag.Get("min"), 64)
	high, highErr := strconv.ParseFloat(tag.Get("max"), 64)
	if lowErr == nil && !(number >= low) || highErr == nil && number > high {
		right := "must be at least " + tag.Get("min")
		if highErr == nil {
			right = "must be from " + tag.Get("min") + " to " + tag.Get("max")
		}
		d.bad(t, path, fmt.Sprintf("is %v", t.value), right)
	}
}

func (d *decoder) unknown(t *tree, path []string, key string, known []string) {
	right := d.retired[key]
	wrong := "is no longer a key"
	if right == "" {
		wrong = "unknown key"
		if near := nearest(key, known); near != "" {
			right = "did you mean " + near + "?"
		} else {
			right = "known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
		}
	}
	d.bad(t, path, wrong, right)
}

// value puts what stands at a place into a field.
func (d *decoder) value(t *tree, v reflect.Value, path []string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(t, v.Elem(), path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if t.keys == nil {
			d.bad(t, path, "is "+kindOf(t), "must be a table")
			return
		}
		d.table(t, v, path)
	case reflect.Map:
		d.mapping(t, v, path)
	case reflect.Slice:
		d.list(t, v, path)
	default:
		d.scalar(t, v, path)
	}
}

func (d *decoder) mapping(t *tree, v reflect.Value, path []string) {
	if t.keys == nil {
		d.bad(t, path, "is "+kindOf(t), "must be a table")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range t.sorted() {
		if v.Type().Elem().Kind() == reflect.Interface {
			v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(plain(t.keys[key])))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(t.keys[key], item, append(slices.Clone(path), key))
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
}

// plain turns a tree into maps, lists and scalars.
func plain(t *tree) any {
	if t.keys == nil {
		return t.value
	}
	m := map[string]any{}
	for key, sub := range t.keys {
		m[key] = plain(sub)
	}
	return m
}

func (d *decoder) list(t *tree, v reflect.Value, path []string) {
	list, ok := t.value.([]any)
	if !ok {
		d.bad(t, path, "is "+kindOf(t), "must be a list of strings")
		return
	}
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			d.bad(t, path, fmt.Sprintf("holds %s", quote(item)), "must be a list of strings")
			continue
		}
		if slices.Contains(texts, text) {
			d.bad(t, path, fmt.Sprintf("names %q twice", text), "once is enough")
			continue
		}
		texts = append(texts, text)
	}
	v.Set(reflect.ValueOf(texts))
}

func (d *decoder) scalar(t *tree, v reflect.Value, path []string) {
	switch got := t.value.(type) {
	case string:
		if v.Kind() == reflect.String {
			v.SetString(got)
			return
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(got)
			return
		}
	case int64:
		switch v.Kind() {
		case reflect.Int, reflect.Int64:
			v.SetInt(got)
			return
		case reflect.Float64:
			v.SetFloat(float64(got))
			return
		}
	case float64:
		if v.Kind() == reflect.Float64 {
			v.SetFloat(got)
			return
		}
	}
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number",
	}[v.Kind()]
	d.bad(t, path, "is "+kindOf(t), "must be "+want)
}

func kindOf(t *tree) string {
	if t.keys != nil {
		return "a table"
	}
	switch t.value.(type) {
	case string:
		return "a string"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "a date"
}
