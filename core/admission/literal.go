package admission

import (
	"fmt"

	"github.com/codex-mmo/codex-mmo/core"
)

// Operations of a literal task. Others are refused.
const (
	OperationSummarize = "summarize_supplied" // a text, in at most so many points
	OperationLocate    = "locate"             // where a text stands in files
)

// Operations lists what a literal task may be.
func Operations() []string { return []string{OperationSummarize, OperationLocate} }

// Literal is the only kind of task that an agent of low trust takes: an
// operation with its data, and no words of its own.
type Literal struct {
	Operation string
	Text      string // of summarize_supplied
	MaxPoints int    // of summarize_supplied; 0: as it sees fit
	Needle    string // of locate
	Paths     []string
}

// Bounds of a literal task.
const (
	maxPoints  = 100
	maxLocated = 256
)

func (l *Literal) check() error {
	bad := func(format string, args ...any) error {
		return core.Errorf(core.KindValue, "literal_task %s: %s", l.Operation, fmt.Sprintf(format, args...)).
			WithRemedy("%s takes {text, max_points?}, %s takes {needle, paths}", OperationSummarize, OperationLocate)
	}
	switch l.Operation {
	case OperationSummarize:
		switch {
		case l.Text == "":
			return bad("there is no text")
		case l.MaxPoints < 0 || l.MaxPoints > maxPoints:
			return bad("max_points %d is not 1 to %d", l.MaxPoints, maxPoints)
		case l.Needle != "" || len(l.Paths) > 0:
			return bad("needle and paths are not its")
		}
	case OperationLocate:
		switch {
		case l.Needle == "":
			return bad("there is no needle")
		case len(l.Paths) == 0 || len(l.Paths) > maxLocated:
			return bad("it needs 1 to %d paths", maxLocated)
		case l.Text != "" || l.MaxPoints != 0:
			return bad("text and max_points are not its")
		}
	default:
		return core.Errorf(core.KindValue, "unsupported literal_task operation %q", l.Operation).WithRemedy("use one of %q", Operations())
	}
	return nil
}
