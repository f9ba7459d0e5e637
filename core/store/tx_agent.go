package store

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// AgentRun reads the running side of the root or of a job.
func (t *Tx) AgentRun(ref string) (*AgentRun, error) { return agentRunTable.get(t, ref) }

// AgentRuns lists those of a session, oldest first; of all sessions when
// session is empty. A row that can't be read fails it: a process may hide in it.
func (t *Tx) AgentRuns(session string) ([]*AgentRun, error) {
	var q where
	q.equal("session_id", session)
	return agentRunTable.list(t, q.String(), q.args, refuse)
}

// PutAgentRun inserts the agent run or updates it. Versions left zero are
// filled in.
func (t *Tx) PutAgentRun(a *AgentRun) error {
	if !core.ValidID(a.AgentRef) {
		return core.Errorf(core.KindValue, "%q can't be the handle of an agent run", a.AgentRef)
	}
	if err := stamp("agent run", a.AgentRef, &a.SchemaVersion, &a.PackageVersion); err != nil {
		return err
	}
	old, err := absent(t.AgentRun(a.AgentRef))
	if err != nil {
		return err
	}
	if old != nil && (old.SessionID != a.SessionID || old.JobID != a.JobID) {
		return core.Errorf(core.KindValue, "agent run %s belongs to session %s, job %q", a.AgentRef, old.SessionID, old.JobID)
	}
	return agentRunTable.put(t, a)
}

// inputTransitions is the whole table. There is no way back to intended, the
// only state from which an input may be sent, so none is sent twice.
var inputTransitions = map[InputState][]InputState{
	InputIntended: {InputSent, InputRejected, InputLost},
	InputSent:     {InputApplied, InputRejected, InputLost, InputTurnLost, InputTurnDone},
	InputApplied:  {InputTurnLost, InputTurnDone},
	InputRejected: {}, InputLost: {}, InputTurnLost: {}, InputTurnDone: {},
}

// AppendInput adds an input in state intended and assigns its Seq, the next
// one of its agent run.
func (t *Tx) AppendInput(in *Input) error {
	if !core.ValidID(in.InputID) {
		return core.Errorf(core.KindValue, "%q can't be the id of an input", in.InputID)
	}
	if in.State != InputIntended {
		return core.Errorf(core.KindValue, "input %s begins as %s, not %q", in.InputID, InputIntended, in.State)
	}
	old, err := absent(inputTable.get(t, in.InputID))
	if err != nil {
		return err
	}
	if old != nil {
		return core.Errorf(core.KindValue, "input %s is there already", in.InputID)
	}
	var last sql.NullInt64
	err = t.tx.QueryRowContext(t.ctx, "SELECT max(seq) FROM inputs WHERE agent_ref = ?", in.AgentRef).Scan(&last)
	if err != nil {
		return t.store.wrap(err, "numbering an input")
	}
	in.Seq = last.Int64 + 1
	return inputTable.put(t, in)
}

// PutInput records how far an input has come. What it says and to whom never
// changes, and its state only goes forward.
func (t *Tx) PutInput(in *Input) error {
	old, err := inputTable.get(t, in.InputID)
	if err != nil {
		return err
	}
	if old.SessionID != in.SessionID || old.AgentRef != in.AgentRef || old.Seq != in.Seq ||
		old.Origin != in.Origin || old.Text != in.Text {
		return core.Errorf(core.KindValue, "input %s can't be rewritten", in.InputID)
	}
	if old.State != in.State && !slices.Contains(inputTransitions[old.State], in.State) {
		return core.Errorf(core.KindRuntime, "input %s is %s and can't become %q", in.InputID, old.State, in.State)
	}
	return inputTable.put(t, in)
}

// Inputs lists an agent run's inputs in their order.
func (t *Tx) Inputs(agentRef string) ([]*Input, error) {
	list, err := inputTable.list(t, "WHERE agent_ref = ?", []any{agentRef}, refuse)
	slices.SortFunc(list, func(a, b *Input) int { return int(a.Seq - b.Seq) })
	return list, err
}

// PutCapability records a token that is given out. A revoked one stays so.
func (t *Tx) PutCapability(c *Capability) error {
	old, err := absent(t.CapabilityByHash(c.TokenSHA256))
	if err != nil {
		return err
	}
	if old != nil && (old.RevokedAt != nil && c.RevokedAt == nil || old.AgentRef != c.AgentRef || old.Kind != c.Kind) {
		return core.Errorf(core.KindRuntime, "a capability of %s can't be given out again", old.AgentRef)
	}
	return capabilityTable.put(t, c)
}

// CapabilityByHash finds a token by the hex sha256 of its text, revoked ones
// too. An unknown one is KindNotFound.
func (t *Tx) CapabilityByHash(hash string) (*Capability, error) {
	c, err := absent(capabilityTable.get(t, hash))
	if err == nil && c == nil {
		err = core.Errorf(core.KindNotFound, "no such capability")
	}
	return c, err
}

// Capabilities lists the tokens that were given to an agent run, oldest first.
func (t *Tx) Capabilities(agentRef string) ([]*Capability, error) {
	return capabilityTable.list(t, "WHERE agent_ref = ?", []any{agentRef}, refuse)
}

// Gateway reads the record of the gateway that serves the hash.
func (t *Tx) Gateway(hash string) (*Gateway, error) { return gatewayTable.get(t, hash) }

// PutGateway inserts the gateway or updates it. Versions left zero are filled
// in.
func (t *Tx) PutGateway(g *Gateway) error {
	if g.GatewayHash == "" {
		return core.Errorf(core.KindValue, "a gateway needs the hash of its routes")
	}
	if err := stamp("gateway", g.GatewayHash, &g.SchemaVersion, &g.PackageVersion); err != nil {
		return err
	}
	if _, err := absent(t.Gateway(g.GatewayHash)); err != nil {
		return err // a row that can't be read is not written over
	}
	return gatewayTable.put(t, g)
}

// LaunchFilter selects launches. The zero value selects all.
type LaunchFilter struct {
	SessionID string
	Owner     string
	Role      string
	Open      bool // only those that were not seen to end
}

// Launches lists the launches that match, oldest first.
func (t *Tx) Launches(f LaunchFilter) ([]*Launch, error) {
	var q where
	q.equal("session_id", f.SessionID)
	q.equal("owner", f.Owner)
	q.equal("role", f.Role)
	if f.Open {
		q.terms = append(q.terms, "ended = 0")
	}
	return launchTable.list(t, q.String(), q.args, refuse)
}

// PutLaunch records the intent to start a process, its identity or its end.
func (t *Tx) PutLaunch(l *Launch) error {
	if l.LaunchID == "" || l.Owner == "" || l.Role == "" {
		return core.Errorf(core.KindValue, "launch %q needs an id, an owner and a role", l.LaunchID)
	}
	return launchTable.put(t, l)
}

// SpawnKey finds the answer that a spawn with this request key got before.
func (t *Tx) SpawnKey(session, key string) (response []byte, found bool, err error) {
	err = t.tx.QueryRowContext(t.ctx,
		"SELECT response FROM spawn_keys WHERE session_id = ? AND request_key = ?", session, key).Scan(&response)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return response, err == nil, t.store.wrap(err, "reading a request key")
}

// PutSpawnKey records the answer to a spawn, a JSON text, so that its repeat
// gets the same one.
func (t *Tx) PutSpawnKey(session, key string, response []byte) error {
	return t.exec(`INSERT INTO spawn_keys (session_id, request_key, response) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET response = excluded.response`, session, key, string(response))
}

// AppendControl records a control that is about to be delivered, under the next
// revision of its agent run, which the caller has taken.
func (t *Tx) AppendControl(c *Control) error {
	c.ControlID = controlID(c.AgentRef, c.Revision)
	if c.Status != ControlPending {
		return core.Errorf(core.KindValue, "control %s begins as %s, not %q", c.ControlID, ControlPending, c.Status)
	}
	old, err := absent(controlTable.get(t, c.ControlID))
	if err != nil {
		return err
	}
	if old != nil {
		return core.Errorf(core.KindRuntime, "control %s is there already", c.ControlID)
	}
	return controlTable.put(t, c)
}

// SettleControl records what became of a control, once. It reports whether the
// control was pending: another revision, or one that was settled before, is left
// as it is.
func (t *Tx) SettleControl(agentRef string, revision uint64, status ControlStatus, problem string, at time.Time) (bool, error) {
	c, err := absent(controlTable.get(t, controlID(agentRef, revision)))
	if err != nil || c == nil || c.Status != ControlPending {
		return false, err
	}
	c.Status, c.Error, c.SettledAt = status, problem, &at
	return true, controlTable.put(t, c)
}

// Controls lists the controls that an agent run was given, oldest first.
func (t *Tx) Controls(agentRef string) ([]*Control, error) {
	return controlTable.list(t, "WHERE agent_ref = ?", []any{agentRef}, refuse)
}

func controlID(agentRef string, revision uint64) string {
	return fmt.Sprintf("%s/%d", agentRef, revision)
}
