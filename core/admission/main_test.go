package admission_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs thousands of sequences of each state machine: they cost little.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("3000")
	}
	os.Exit(m.Run())
}
