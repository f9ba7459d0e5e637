package testkit

import (
	"database/sql"
	"testing"
)

// OpenSQL opens a database behind the store's back until the test ends, with the
// checks of its tables off. The test must import core/store, which registers the
// driver.
func OpenSQL(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// ExecSQL changes a database behind the store's back, as damage or another build
// would.
func ExecSQL(t testing.TB, database string, statements ...string) {
	t.Helper()
	db := OpenSQL(t, database)
	defer func() { _ = db.Close() }() // the folder may go before the test ends
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
