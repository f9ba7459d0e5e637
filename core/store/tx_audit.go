package store

import (
	"database/sql"
	"errors"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Audit adds a row to the audit trail and assigns its Seq. It belongs in the
// transaction of the intent that it precedes.
func (t *Tx) Audit(a *Audit) error {
	var details any
	if len(a.Details) > 0 {
		text, err := strictjson.Marshal(a.Details)
		if err != nil {
			return core.Errorf(core.KindValue, "audit %s: details can't be written as JSON: %w", a.Event, err)
		}
		details = string(text)
	}
	result, err := t.tx.ExecContext(t.ctx,
		"INSERT INTO audit (at, event, session_id, run_id, job_id, caller, details) VALUES (?, ?, ?, ?, ?, ?, ?)",
		stampTime(a.At), a.Event, a.SessionID, a.RunID, orNull(a.JobID), orNull(a.Caller), details)
	if err != nil {
		return t.store.wrap(err, "writing the audit trail")
	}
	a.Seq, err = result.LastInsertId()
	return t.store.wrap(err, "writing the audit trail")
}

// AuditRows lists a session's audit rows with a Seq above after, oldest first,
// at most limit of them.
func (t *Tx) AuditRows(session string, after int64, limit int) (list []*Audit, err error) {
	rows, err := t.tx.QueryContext(t.ctx,
		`SELECT seq, at, event, session_id, run_id, coalesce(job_id, ''), coalesce(caller, ''), coalesce(details, '{}')
		FROM audit WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?`, session, after, limit)
	if err != nil {
		return nil, t.store.wrap(err, "reading the audit trail")
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var a Audit
		var at, details string
		if err := rows.Scan(&a.Seq, &at, &a.Event, &a.SessionID, &a.RunID, &a.JobID, &a.Caller, &details); err != nil {
			return nil, t.store.wrap(err, "reading the audit trail")
		}
		if a.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return nil, core.Errorf(core.KindValue, "audit row %d has no valid time: %w", a.Seq, err)
		}
		if err := strictjson.Unmarshal([]byte(details), &a.Details, nil); err != nil {
			return nil, core.Errorf(core.KindValue, "audit row %d has invalid details: %w", a.Seq, err)
		}
		list = append(list, &a)
	}
	return list, t.store.wrap(rows.Err(), "reading the audit trail")
}

// AddUsage adds one upstream attempt's counts to its agent run, route and
// model, and moves the session's telemetry cursor to it. A cursor that is not
// above the recorded one was counted before: nothing is added. Counts that the
// provider did not give are nil and leave the sum as it is.
func (t *Tx) AddUsage(delta *Usage, cursor uint64) error {
	last, err := t.TelemetryCursor(delta.SessionID)
	if err != nil || cursor <= last {
		return err
	}
	err = t.exec(`INSERT INTO usage
		(session_id, agent_ref, route, model, requests, input_tokens, cached_tokens, output_tokens, scripted, charged_tokens, cost_nano, unpriced)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET
			requests = requests + excluded.requests,
			input_tokens = coalesce(input_tokens + excluded.input_tokens, input_tokens, excluded.input_tokens),
			cached_tokens = coalesce(cached_tokens + excluded.cached_tokens, cached_tokens, excluded.cached_tokens),
			output_tokens = coalesce(output_tokens + excluded.output_tokens, output_tokens, excluded.output_tokens),
			scripted = excluded.scripted,
			charged_tokens = charged_tokens + excluded.charged_tokens,
			cost_nano = cost_nano + excluded.cost_nano,
			unpriced = unpriced + excluded.unpriced`, delta.values()...)
	if err != nil {
		return err
	}
	return t.exec("UPDATE sessions SET telemetry = ? WHERE session_id = ?", int64(cursor), delta.SessionID)
}

// PutUsage sets what an agent run has used on a route whose engine counts by
// itself, over its thread's whole life. A count is never set back.
func (t *Tx) PutUsage(u *Usage) error {
	return t.exec(`INSERT INTO usage
		(session_id, agent_ref, route, model, requests, input_tokens, cached_tokens, output_tokens, scripted, charged_tokens, cost_nano, unpriced)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET
			requests = max(requests, excluded.requests),
			input_tokens = max(coalesce(input_tokens, 0), coalesce(excluded.input_tokens, 0)),
			cached_tokens = max(coalesce(cached_tokens, 0), coalesce(excluded.cached_tokens, 0)),
			output_tokens = max(coalesce(output_tokens, 0), coalesce(excluded.output_tokens, 0)),
			charged_tokens = max(charged_tokens, excluded.charged_tokens),
			cost_nano = max(cost_nano, excluded.cost_nano),
			unpriced = max(unpriced, excluded.unpriced)`, u.values()...)
}

func (u *Usage) values() []any {
	return []any{
		u.SessionID, u.AgentRef, u.Route, u.Model, int64(u.Requests), count(u.InputTokens), count(u.CachedTokens),
		count(u.OutputTokens), flag(u.Scripted), int64(u.ChargedTokens), u.NanoUSD, int64(u.Unpriced),
	}
}

// UsageOf lists a session's sums, by agent run, route and model.
func (t *Tx) UsageOf(session string) (list []*Usage, err error) {
	rows, err := t.tx.QueryContext(t.ctx,
		`SELECT session_id, agent_ref, route, model, requests, input_tokens, cached_tokens, output_tokens, scripted,
			charged_tokens, cost_nano, unpriced
		FROM usage WHERE session_id = ? ORDER BY agent_ref, route, model`, session)
	if err != nil {
		return nil, t.store.wrap(err, "reading usage")
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var u Usage
		err := rows.Scan(&u.SessionID, &u.AgentRef, &u.Route, &u.Model, &u.Requests,
			&u.InputTokens, &u.CachedTokens, &u.OutputTokens, &u.Scripted, &u.ChargedTokens, &u.NanoUSD, &u.Unpriced)
		if err != nil {
			return nil, t.store.wrap(err, "reading usage")
		}
		list = append(list, &u)
	}
	return list, t.store.wrap(rows.Err(), "reading usage")
}

// Spent sums what a session's budget was charged, for one agent run or, with an
// empty ref, for all. unpriced counts the requests whose cost nobody knows.
func (t *Tx) Spent(session, ref string) (sum Allowance, unpriced int, err error) {
	var q where
	q.equal("session_id", session)
	q.equal("agent_ref", ref)
	err = t.tx.QueryRowContext(t.ctx, "SELECT coalesce(sum(charged_tokens), 0), coalesce(sum(cost_nano), 0), coalesce(sum(unpriced), 0) FROM usage "+
		q.String(), q.args...).Scan(&sum.Tokens, &sum.NanoUSD, &unpriced)
	return sum, unpriced, t.store.wrap(err, "summing what was spent")
}

// TelemetryCursor returns the position up to which the gateway's telemetry of
// a session was counted; 0 before the first.
func (t *Tx) TelemetryCursor(session string) (uint64, error) {
	var cursor int64
	err := t.tx.QueryRowContext(t.ctx, "SELECT telemetry FROM sessions WHERE session_id = ?", session).Scan(&cursor)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, core.Errorf(core.KindNotFound, "no session %q", session)
	}
	return uint64(cursor), t.store.wrap(err, "reading the telemetry cursor")
}

func count(n *uint64) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}
