package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/contract"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// How a result comes to meet its contract.
const (
	// transportNative: the engine generates by a projection of the schema.
	transportNative = "native_schema_projection"
	// transportText: the agent is told the schema and writes by it.
	transportText = "validated_text"
)

// Origins of the inputs that ask for a result.
const (
	originResult = "contract" // of an agent whose goal is reached
	originRepair = "repair"   // of one whose result does not meet its contract
)

const resultText = "Your goal is reached. Give your result now, as the JSON that its contract asks for, from what you have done and seen. Do no further work."

const holesWarning = "the trace has holes: the commands that the result names were not compared with it"

// contractFor is how the results of a role are held to its contract; nil without
// one.
func contractFor(snap *profile.Snapshot, agent string) (*store.Contract, error) {
	role := snap.Agents[agent]
	c, err := compiledContract(snap, agent)
	if c == nil || err != nil {
		return nil, err
	}
	out := &store.Contract{Enforcement: role.ContractEnforcement, Transport: transportText}
	if role.ContractEnforcement == profile.ContractStrict && c.Projection() != nil {
		out.Transport = transportNative
	}
	return out, nil
}

// compiledContract returns the contract of a role, nil without one.
func compiledContract(snap *profile.Snapshot, agent string) (*contract.Contract, error) {
	name := snap.Agents[agent].OutputContract
	if name == "" {
		return nil, nil
	}
	raw, err := snap.Text(name)
	if err != nil {
		return nil, err
	}
	c, err := contract.Compile(raw)
	if err != nil {
		return nil, core.Errorf(core.KindValue, "the contract %s of agent %s %w", name, agent, err)
	}
	return c, nil
}

// held returns the job of an agent whose results are held to a contract, else
// nil.
func (a *agent) held() *store.Job {
	if a.jobID == "" {
		return nil
	}
	j, err := a.sup.cachedJob(a.jobID)
	if err != nil || j.Contract == nil {
		return nil
	}
	return j
}

// generatesResult reports whether a goal's result comes of a turn of its own, in
// which the engine generates by the contract's schema.
func (a *agent) generatesResult() bool {
	j := a.held()
	return j != nil && j.Contract.Transport == transportNative && a.rec.Goal != nil
}

// outputSchema is what the engine is to generate a turn's last message by: it
// binds that turn alone. A goal works without one until its result is asked
// for, and a repair is free in its form, since what is to be mended may be what
// the projection left out.
func (a *agent) outputSchema(in *store.Input) ([]byte, error) {
	j := a.held()
	if j == nil || j.Contract.Transport != transportNative || in.Origin == originRepair || a.rec.Goal != nil && !a.rec.Goal.Finalizing {
		return nil, nil
	}
	c, err := compiledContract(a.sup.snap, j.Agent)
	if err != nil {
		return nil, err
	}
	return c.Projection(), nil
}

// finalizeUntil begins the time in which a result may be asked for. It begins
// once: what comes later has what is left of it.
func (a *agent) finalizeUntil() {
	if a.rec.FinalizeBy == nil {
		by := a.sup.cfg.now().UTC().Add(time.Duration(a.role.FinalizationGraceSeconds) * time.Second)
		a.rec.FinalizeBy = &by
	}
}

// holdToContract judges what an agent said at the end of a turn, and changes its
// ending by it. It reports whether it asked the agent again instead.
func (a *agent) holdToContract(ctx context.Context, in *store.Input, e *ending) (again bool, err error) {
	j := a.held()
	if j == nil {
		return false, nil
	}
	limited := e.job == core.JobSuspended && a.rec.Goal != nil && a.rec.Goal.Status == goalBudgetLimited
	if e.job == core.JobSuspended && !limited {
		return false, nil
	}
	if !limited && a.generatesResult() && !a.rec.Goal.Finalizing {
		a.changeGoal(func(g *store.Goal) { g.Finalizing = true })
		a.finalizeUntil()
		return true, a.sendNew(ctx, in, originResult, resultText)
	}
	if strings.TrimSpace(e.text) == "" {
		return false, nil
	}
	repaired, err := a.repaired(ctx)
	if err != nil {
		return false, err
	}
	if err := a.judge(j, e); err != nil {
		return false, err
	}
	e.contract.RepairAttempted = repaired
	if *e.contract.Valid {
		if limited {
			e.job, e.kind, e.failure = core.JobCompletedWithWarnings, core.ResultFinal, nil
			e.warning = "the goal's token budget is used up; its fully validated strict result stands"
		}
		return false, nil
	}
	wrong := "the result does not meet its contract: " + strings.Join(e.contract.Errors, "; ")
	switch {
	case limited:
		e.warning = wrong
	case j.Contract.Enforcement == profile.ContractWarn:
		e.job, e.warning = core.JobCompletedWithWarnings, wrong
	case !repaired && a.mayRepair():
		a.finalizeUntil()
		return true, a.sendNew(ctx, in, originRepair, repairText(e.contract.Errors))
	default:
		e.job, e.kind = core.JobFailed, core.ResultPartial
		e.failure = &store.Failure{Kind: "contract_invalid", Message: wrong}
	}
	return false, nil
}

// mayRepair reports whether there is time left to mend a result.
func (a *agent) mayRepair() bool {
	return a.rec.FinalizeBy == nil || a.sup.cfg.now().Before(*a.rec.FinalizeBy)
}

// repaired reports whether the agent was asked to mend its result since it was
// last given work.
func (a *agent) repaired(ctx context.Context) (found bool, err error) {
	err = a.sup.view(ctx, func(tx *store.Tx) error {
		list, err := tx.Inputs(a.ref)
		for _, in := range list {
			found = in.Origin == originRepair || found && in.Origin != "control"
		}
		return err
	})
	return found, err
}

func repairText(errs []string) string {
	return "Your result was checked, and does not hold:\n\n- " + strings.Join(errs, "\n- ") +
		"\n\nRepair only the final JSON result: do no further work, and answer with the whole corrected JSON and nothing else. " +
		"What you claim must be what you did: name a command as it was run, with the exit code that it had."
}

// judge compares a result with its contract and its evidence.
func (a *agent) judge(j *store.Job, e *ending) error {
	c, err := compiledContract(a.sup.snap, j.Agent)
	if err != nil {
		return err
	}
	verdict := &store.Contract{Enforcement: j.Contract.Enforcement, Transport: j.Contract.Transport}
	v, errs := c.Read(e.text)
	if v != nil {
		if !a.rec.EvidenceComplete {
			e.warning = holesWarning
		}
		found, wrong := v.Correlate(a.evidence(j))
		errs = append(errs, wrong...)
		for _, f := range found {
			verdict.Artifacts = append(verdict.Artifacts, store.Artifact(f))
		}
	}
	valid := len(errs) == 0
	verdict.Valid, verdict.Errors = &valid, errs
	if valid {
		e.structured = v.Canonical
	} else {
		verdict.Artifacts = nil
	}
	e.contract = verdict
	return nil
}

// evidence is what a result's claims are compared with. A trace with holes
// can't deny a command.
func (a *agent) evidence(j *store.Job) contract.Evidence {
	out := contract.Evidence{
		Artifact: func(relative string) (*contract.Artifact, error) {
			f, err := workspace.ReadArtifact(j.Cwd, relative)
			if err != nil {
				return nil, err
			}
			return &contract.Artifact{RelativePath: relative, SHA256: f.SHA256, Size: f.Size, MediaType: f.MediaType}, nil
		},
	}
	if l := j.Literal; l != nil {
		out.Literal = map[string]string{"operation": l.Operation, "input_sha256": l.InputSHA256}
	}
	if !a.rec.EvidenceComplete {
		return out
	}
	out.Commands = func() ([]contract.Command, error) {
		f, err := os.Open(a.trailPath())
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		defer func() { _ = f.Close() }()
		return contract.Commands(f)
	}
	return out
}
