package store

import (
	"github.com/codex-mmo/codex-mmo/core"
)

// ofJob are the tables whose rows belong to one agent run.
var ofJob = []string{"inputs", "capabilities", "controls", "usage"}

// DeleteJob removes a job that has ended, with everything that belongs to it
// alone. Its audit rows stay.
func (t *Tx) DeleteJob(id string) error {
	j, err := t.Job(id)
	if err != nil {
		return err
	}
	if !j.Status.Terminal() {
		return core.Errorf(core.KindRuntime, "job %s is %s: it can't be removed", id, j.Status)
	}
	for _, table := range ofJob {
		if err := t.exec("DELETE FROM "+table+" WHERE agent_ref = ?", j.AgentRef); err != nil {
			return err
		}
	}
	if err := t.exec("DELETE FROM launches WHERE owner = ?", j.AgentRef); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM agent_runs WHERE agent_ref = ?", j.AgentRef); err != nil {
		return err
	}
	return t.exec("DELETE FROM jobs WHERE job_id = ?", id)
}

// DeleteSession removes a session that has ended, with its jobs and everything
// else that belongs to it. Its audit rows stay.
func (t *Tx) DeleteSession(id string) error {
	rec, err := t.Session(id)
	if err != nil {
		return err
	}
	if !rec.Status.Terminal() {
		return core.Errorf(core.KindRuntime, "session %s is %s: it can't be removed", id, rec.Status)
	}
	for _, table := range append([]string{"launches", "spawn_keys", "jobs", "agent_runs", "runs"}, ofJob...) {
		if err := t.exec("DELETE FROM "+table+" WHERE session_id = ?", id); err != nil {
			return err
		}
	}
	return t.exec("DELETE FROM sessions WHERE session_id = ?", id)
}
