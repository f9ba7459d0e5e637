package admission_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain runs thousands of sequences of each state machine: they cost little.
// It also makes this binary play a lead.
func TestMain(m *testing.M) {
	if spec := os.Getenv(leadEnv); spec != "" {
		if err := playLead(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("3000")
	}
	os.Exit(m.Run())
}
