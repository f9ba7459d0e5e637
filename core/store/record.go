package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// table maps records of type T to rows: one column a listed field, and the
// whole record in column payload.
type table[T any] struct {
	name    string                            // of the SQL table
	noun    string                            // for messages: "session", "agent run"
	version func(*T) (schema int, pkg string) // of a record; nil: the table has no versions
	columns []column[T]
	extra   []string                                     // columns that are not derived from the record
	valid   func(*T) bool                                // of values that no record may lack; nil: any
	check   func(row, map[string]json.RawMessage) string // says of a row what valid refused; nil with it
	fields  map[string]struct{}                          // JSON keys of T
}

// column is derived from a record when it is written and compared when it is
// read. The first one of a table is its key.
type column[T any] struct {
	name     string
	identity bool         // says who the row is, not what it holds
	of       func(*T) any // string, int64 or nil
}

const (
	colSchema  = "schema_version"
	colPackage = "package_version"
	colPayload = "payload"
)

// jsonFields returns the JSON keys of a record type, those of embedded structs
// among them.
func jsonFields[T any]() map[string]struct{} {
	fields := map[string]struct{}{}
	addFields(fields, reflect.TypeFor[T]())
	return fields
}

func addFields(fields map[string]struct{}, t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			addFields(fields, f.Type)
			continue
		}
		fields[name] = struct{}{}
	}
}

func (t *table[T]) key() string { return t.columns[0].name }

// put updates the record's row or inserts it. Columns that are not derived keep
// their values.
func (t *table[T]) put(tx *Tx, rec *T) error {
	payload, err := strictjson.Marshal(rec)
	if err != nil {
		return core.Errorf(core.KindValue, "%s can't be written as JSON: %w", t.noun, err)
	}
	var names []string
	var args []any
	add := func(name string, value any) {
		names, args = append(names, name), append(args, value)
	}
	for _, c := range t.columns[1:] {
		add(c.name, c.of(rec))
	}
	if t.version != nil {
		add(colSchema, int64(SchemaVersion))
		add(colPackage, StatePackage)
	}
	add(colPayload, string(payload))
	add(t.key(), t.columns[0].of(rec)) // last, as the UPDATE has it
	sets := strings.Join(names[:len(names)-1], " = ?, ")
	// Two statements rather than an upsert, so that a trigger on inserts sees
	// inserts only.
	result, err := tx.tx.ExecContext(tx.ctx, fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s = ?", t.name, sets, t.key()), args...)
	if err != nil {
		return tx.store.wrap(err, "writing table "+t.name)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return tx.store.wrap(err, "writing table "+t.name)
	}
	marks := strings.Repeat(", ?", len(names))[2:]
	return tx.exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(names, ", "), marks), args...)
}

// get reads the record with the given key. A missing one is KindNotFound.
func (t *table[T]) get(tx *Tx, key string) (*T, error) {
	var found *T
	err := t.each(tx, "WHERE "+t.key()+" = ?", []any{key}, func(r row) error {
		rec, err := t.decode(r)
		found = rec
		return err
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, core.Errorf(core.KindNotFound, "no %s %q", t.noun, key)
	}
	return found, nil
}

// list reads the records that match, oldest first. A row that can't be read
// is given to bad, which says whether that ends the listing.
func (t *table[T]) list(tx *Tx, where string, args []any, bad func(row, error) error) ([]*T, error) {
	var all []*T
	err := t.each(tx, where+" ORDER BY rowid", args, func(r row) error {
		rec, err := t.decode(r)
		if err != nil {
			return bad(r, err)
		}
		all = append(all, rec)
		return nil
	})
	return all, err
}

// refuse makes one bad row fail a whole listing.
func refuse(_ row, err error) error { return err }

// row is what a SELECT * returned: column -> value as the driver gave it.
type row map[string]any

// each gives every row to yield, which must not keep it.
func (t *table[T]) each(tx *Tx, where string, args []any, yield func(row) error) error {
	rows, err := tx.tx.QueryContext(tx.ctx, "SELECT * FROM "+t.name+" "+where, args...)
	if err != nil {
		return tx.store.wrap(err, "reading table "+t.name)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return tx.store.wrap(err, "reading table "+t.name)
	}
	r := make(row, len(names))
	values, pointers := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return tx.store.wrap(err, "reading table "+t.name)
		}
		for i, name := range names {
			r[name] = values[i]
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return tx.store.wrap(rows.Err(), "reading table "+t.name)
}

// decode checks a row and returns its record.
func (t *table[T]) decode(r row) (*T, error) {
	text, ok := r[colPayload].(string)
	rec := new(T)
	// The way of all whole rows, in one pass over the payload. Whatever is
	// wrong, diagnose finds and tells.
	if ok && strictjson.Unmarshal([]byte(text), rec, nil) == nil && t.agrees(r, rec) {
		return rec, nil
	}
	return nil, t.diagnose(r, text)
}

// agrees reports whether the record is one of this build's and its columns say
// what it says, and nothing else.
func (t *table[T]) agrees(r row, rec *T) bool {
	if t.version != nil {
		schema, pkg := t.version(rec)
		if schema != SchemaVersion || pkg != StatePackage || r[colSchema] != int64(SchemaVersion) || r[colPackage] != StatePackage {
			return false
		}
	}
	for name, value := range r {
		if value != nil && !t.has(name) {
			return false
		}
	}
	for _, c := range t.columns {
		if r[c.name] != c.of(rec) {
			return false
		}
	}
	return t.valid == nil || t.valid(rec)
}

// diagnose says what is wrong with a row. The order decides what a row with
// several faults is told to be: not an object, of another schema, of another
// package, of another shape, another's.
func (t *table[T]) diagnose(r row, text string) error {
	id := fmt.Sprint(r[t.key()])
	fail := func(format string, args ...any) error {
		return core.Errorf(core.KindValue, "%s %q: %s", t.noun, id, fmt.Sprintf(format, args...))
	}
	var fields map[string]json.RawMessage
	if strictjson.Unmarshal([]byte(text), &fields, nil) != nil || fields == nil {
		return fail("%s state root must be an object", t.noun)
	}
	if t.version != nil {
		if r[colSchema] != int64(SchemaVersion) || string(fields[colSchema]) != fmt.Sprint(SchemaVersion) {
			return fail("unsupported %s state schema: this build reads version %d", t.noun, SchemaVersion)
		}
		if r[colPackage] != StatePackage || string(fields[colPackage]) != `"`+StatePackage+`"` {
			return fail("persistent %s package must be %q; use the build that made it", t.noun, StatePackage)
		}
	}
	if retired := t.unknown(r, fields); len(retired) > 0 {
		return fail("%s state has retired fields: %s", t.noun, strings.Join(retired, ", "))
	}
	if t.check != nil {
		if problem := t.check(r, fields); problem != "" {
			return fail("%s", problem)
		}
	}
	rec := new(T)
	if err := strictjson.Unmarshal([]byte(text), rec, nil); err != nil {
		return core.Errorf(core.KindValue, "%s %q: %s state is invalid: %w", t.noun, id, t.noun, err)
	}
	for _, c := range t.columns {
		if r[c.name] == c.of(rec) {
			continue
		}
		if c.identity {
			return fail("%s state identity mismatch: column %s and payload differ", t.noun, c.name)
		}
		return fail("%s state is inconsistent: column %s and payload differ", t.noun, c.name)
	}
	return fail("%s state is invalid", t.noun)
}

// unknown names the JSON keys and the filled columns that no record of this
// build has, sorted.
func (t *table[T]) unknown(r row, fields map[string]json.RawMessage) []string {
	var names []string
	for key := range fields {
		if _, ok := t.fields[key]; !ok {
			names = append(names, key)
		}
	}
	for name, value := range r {
		if value != nil && !t.has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *table[T]) has(name string) bool {
	if name == colPayload || t.version != nil && (name == colSchema || name == colPackage) {
		return true
	}
	return slices.Contains(t.extra, name) ||
		slices.ContainsFunc(t.columns, func(c column[T]) bool { return c.name == name })
}

// stamp fills the version fields of a record to be written, and refuses a
// record of another version: it must not be rewritten as one of ours.
func stamp(noun, id string, schema *int, pkg *string) error {
	if *schema == 0 && *pkg == "" {
		*schema, *pkg = SchemaVersion, StatePackage
	}
	if *schema != SchemaVersion || *pkg != StatePackage {
		return core.Errorf(core.KindValue, "%s %q has schema %d of package %q, which this build does not write", noun, id, *schema, *pkg)
	}
	return nil
}

// Column values: what a record's field is in SQL.

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func flag(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}

func stampTime(t time.Time) any { return t.UTC().Format(time.RFC3339Nano) }

// units is what a holder occupies of the capacity of a lock key; null without
// one.
func units(lockKey string, n int) any {
	if lockKey == "" {
		return nil
	}
	return int64(n)
}

// scopes is the lease's paths as a JSON array; null when there are none.
func scopes(l Lease) any {
	if len(l.Paths) == 0 {
		return nil
	}
	text, err := strictjson.Marshal(l.Paths)
	if err != nil {
		return "" // no JSON: the schema refuses the row
	}
	return string(text)
}

func pidOf(p Process) any {
	if p.PID == 0 {
		return nil
	}
	return int64(p.PID)
}
