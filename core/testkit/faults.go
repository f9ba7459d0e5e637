package testkit

import (
	"fmt"
	"strings"
)

// Fault is a trigger that makes the store's database refuse one kind of write,
// as a full disk or a broken constraint would, at an exact place.
type Fault struct {
	Name    string // of the trigger; an SQL identifier
	Table   string
	On      string // INSERT, UPDATE or DELETE
	When    string // SQL condition over NEW and OLD; empty: always
	Message string // text of the error; empty: "injected fault"
}

// SQL returns the statement that arms the fault. The whole transaction of a
// write that meets it fails.
func (f Fault) SQL() string {
	when := ""
	if f.When != "" {
		when = " WHEN " + f.When
	}
	message := f.Message
	if message == "" {
		message = "injected fault"
	}
	return fmt.Sprintf("CREATE TRIGGER %s BEFORE %s ON %s FOR EACH ROW%s BEGIN SELECT RAISE(ABORT, '%s'); END",
		f.Name, f.On, f.Table, when, strings.ReplaceAll(message, "'", "''"))
}

// Disarm returns the statement that removes the fault.
func (f Fault) Disarm() string { return "DROP TRIGGER IF EXISTS " + f.Name }
