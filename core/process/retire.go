package process

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// Bounds of the time that the sweep may take to see killed processes end.
const (
	defaultKillWait = 2500 * time.Millisecond
	maxKillWait     = 2900 * time.Millisecond // a caller may rely on less than 3 s
)

// RetireOptions are the choices of Retire. Nil means all defaults.
type RetireOptions struct {
	// Grace is how long the process may take to end after each of the two
	// SIGTERMs; 0: it is not waited for.
	Grace time.Duration
	// KillWait is how long killed processes may take to end; 0: 2.5 s. More
	// than 2.9 s is cut to that.
	KillWait time.Duration
	// Mark names the owner whose marked processes are swept too: an agent run
	// ref for all its generations, or a whole "<ref>/<generation>"; empty:
	// none.
	Mark string
	// Table stands for the operating system; nil: the real one.
	Table ProcessTable
}

// Retire ends a process and everything that it started: SIGTERM, grace,
// SIGTERM again, grace, then SIGKILL for every descendant until none is left.
// (An engine drains its running turn on the first SIGTERM and ends on the
// second.)
//
// Descendants are those seen below the process from the first look on, all
// that is in a session or process group that one of them leads or led, those
// that carry the mark, and, in a subreaper, what was re-parented to it. That
// holds also when the process itself is gone already: its orphans are swept.
//
// Retire returns nil only when nothing of it lives. Otherwise it returns the
// survivors and an error that names each of them. When ctx is done the graces
// are cut short; the sweep is done all the same. Retire never signals this
// process or one above it.
func Retire(ctx context.Context, leader Identity, opts *RetireOptions) ([]Identity, error) {
	r := newRetirement(leader, opts)
	if _, err := r.observe(); err != nil {
		return nil, err
	}
	for range 2 {
		// Errors but ErrGone are not looked at: what can't be signalled is
		// found alive by the sweep and named there.
		if err := r.table.Signal(leader, syscall.SIGTERM); isGone(err) {
			break
		}
		if err := r.graceful(ctx); err != nil {
			return nil, err
		}
		if _, err := r.observe(); err != nil {
			return nil, err
		}
	}
	survivors, err := r.sweep(context.WithoutCancel(ctx))
	if err != nil || len(survivors) == 0 {
		return survivors, err
	}
	return survivors, core.Errorf(core.KindRuntime, "process groups did not terminate: %s", names(survivors)).
		WithRemedy("end them by hand or restart the machine, then try again")
}

// retirement is one Retire under way.
type retirement struct {
	leader   Identity
	mark     string
	grace    time.Duration
	killWait time.Duration
	table    ProcessTable
	members  map[int]Identity // pid -> the leader and every descendant seen so far
}

func newRetirement(leader Identity, opts *RetireOptions) *retirement {
	if opts == nil {
		opts = &RetireOptions{}
	}
	r := &retirement{
		leader: leader, mark: opts.Mark, grace: opts.Grace,
		killWait: opts.KillWait, table: opts.Table,
		members: make(map[int]Identity),
	}
	if r.killWait <= 0 {
		r.killWait = defaultKillWait
	}
	r.killWait = min(r.killWait, maxKillWait)
	if r.table == nil {
		r.table = SystemTable()
	}
	if leader.whole() {
		r.members[leader.PID] = leader
	}
	return r
}

// graceful waits for the leader's end as long as it is given.
func (r *retirement) graceful(ctx context.Context) error {
	if r.grace <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	return r.table.Wait(ctx, []Identity{r.leader})
}

// sweep kills in rounds until two looks in a row find nothing, and returns
// what still lives when the time is over. One look is not enough: a process
// that forks and ends while the table is read can hide its child once.
func (r *retirement) sweep(ctx context.Context) ([]Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, r.killWait)
	defer cancel()
	for clean := 0; clean < 2; {
		alive, err := r.observe()
		if err != nil {
			return nil, err
		}
		if len(alive) == 0 {
			clean++
			continue
		}
		if ctx.Err() != nil {
			return alive, nil
		}
		clean = 0
		for _, id := range alive {
			_ = r.table.Signal(id, syscall.SIGKILL) // what stays alive is reported
		}
		if err := r.table.Wait(ctx, alive); err != nil {
			return alive, err
		}
	}
	return nil, nil
}

// observe looks at the process table, adds what belongs to the leader to the
// members, and returns those that live.
func (r *retirement) observe() ([]Identity, error) {
	entries, err := r.table.Entries()
	if err != nil {
		return nil, err
	}
	line, err := ownLine(entries)
	if err != nil {
		return nil, err
	}
	if line[r.leader.PID].Same(r.leader) {
		return nil, core.Errorf(core.KindValue, "retire %v: this process is below it", r.leader)
	}
	others := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if _, ours := line[e.PID]; !ours {
			others = append(others, e)
		}
	}
	belongs := r.membership(others)
	var alive []Identity
	for _, e := range below(others, belongs) {
		if e.ended() {
			continue
		}
		r.members[e.PID] = e.Identity
		alive = append(alive, e.Identity)
	}
	return alive, nil
}

// ownLine returns this process and those above it, by pid.
func ownLine(entries []Entry) (map[int]Identity, error) {
	byPID := make(map[int]Entry, len(entries)) // pid -> entry
	for _, e := range entries {
		byPID[e.PID] = e
	}
	self, err := readEntry(os.Getpid())
	if err != nil {
		return nil, err
	}
	line := map[int]Identity{self.PID: self.Identity}
	for pid := self.PPID; pid > 0; {
		e, ok := byPID[pid]
		if _, seen := line[pid]; seen || !ok {
			break
		}
		line[pid] = e.Identity
		pid = e.PPID
	}
	return line, nil
}

func names(ids []Identity) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ", ")
}
