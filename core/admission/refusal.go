package admission

import (
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Reasons of an AdmissionError. They are stable.
const (
	ReasonSession          = "session_not_admitting"
	ReasonParent           = "parent_not_admitting"
	ReasonDepth            = "depth"
	ReasonAncestor         = "ancestor_role"
	ReasonRouteUnavailable = "route_unavailable"
	ReasonActiveAgents     = "active_agent_limit"
	ReasonRole             = "role_limit"
	ReasonWriters          = "writer_limit"
	ReasonResource         = "resource_limit"
	ReasonWriteScope       = "write_scope_conflict"
	ReasonBudget           = "budget"
)

func refusal(reason, format string, args ...any) *core.Error {
	e := core.Errorf(core.KindAdmission, format, args...)
	e.Reason = reason
	return e
}

// held adds to a refusal who has what is missing, and what would free it.
func held(list []store.Holder, e *core.Error) *core.Error {
	remedy := "ask for less"
	for _, h := range list {
		if h.JobID == thisBatch {
			continue
		}
		if len(e.Holders) == core.MaxHolders {
			break
		}
		e.Holders = append(e.Holders, core.Holder{
			SessionID: h.SessionID, JobID: h.JobID, Agent: h.Agent, Status: h.Status, Units: h.Units, Frees: Frees(h),
		})
	}
	if len(e.Holders) > 0 {
		remedy = "wait for one of these to end, or ask for less"
	}
	return e.WithRemedy("%s", remedy)
}

func heldScopes(list []store.Holder, e *core.Error) *core.Error {
	e = held(list, e)
	for i := range e.Holders {
		e.Holders[i].Units, e.Holders[i].WriteScope = 0, list[i].Scopes
	}
	return e
}

// Frees says what would set free what a holder has, as a clause.
func Frees(h store.Holder) string {
	switch {
	case h.JobID == "" && core.SessionStatus(h.Status) == core.SessionDetached:
		return fmt.Sprintf("when session %s ends or is paused: codex-mmo stop %[1]s, or codex-mmo pause %[1]s", h.SessionID)
	case h.JobID == "":
		return fmt.Sprintf("when session %s ends or is paused", h.SessionID)
	case h.Class == store.ClassLive:
		return "when its process ends: stop the job, or pause its session"
	}
	return "when the job ends"
}

// names lists holders for a sentence.
func names(list []store.Holder) string {
	var texts []string
	for i, h := range list {
		if i == core.MaxHolders {
			texts = append(texts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		texts = append(texts, nameOf(h))
	}
	if len(texts) == 0 {
		return "nobody: the limit is 0"
	}
	return strings.Join(texts, ", ")
}

func nameOf(h store.Holder) string {
	switch {
	case h.JobID == thisBatch:
		return "another member of this batch"
	case h.JobID == "":
		return fmt.Sprintf("the root of session %s (%s)", h.SessionID, h.Status)
	}
	return fmt.Sprintf("job %s of session %s (%s)", h.JobID, h.SessionID, h.Status)
}
