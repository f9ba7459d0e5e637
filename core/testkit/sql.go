package testkit

import (
	"database/sql"
	"testing"
)

// ExecSQL changes a database behind the store's back, with the checks of its
// tables off, as damage or another build would. The test must import core/store,
// which registers the driver.
func ExecSQL(t testing.TB, database string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
