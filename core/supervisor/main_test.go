package supervisor

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes this binary play the processes that tests start: keeper,
// supervisor, gateway, and an engine.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		var err error
		switch os.Args[1] {
		case "supervise":
			err = playSupervise(os.Args[2], os.Args[3:])
		case "plugin":
			err = playGateway()
		case "engine":
			err = playEngine(os.Args[2])
		default: // flags of go test
			goleak.VerifyTestMain(m)
		}
		var exit exitCode
		if errors.As(err, &exit) {
			os.Exit(int(exit))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// exitCode ends a played process.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
