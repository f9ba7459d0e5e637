package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// helloLimit bounds the question to one supervisor.
const helloLimit = time.Second

// records looks at what sessions left: records that can't be read, sessions
// that should be supervised and are not, and processes that outlived theirs.
func (p *patient) records(ctx context.Context) outcome {
	if p.ground().err != nil {
		return outcome{findings: []Finding{notChecked(groupRecords, "store", "the folders")}}
	}
	if _, err := os.Lstat(p.ground().Database()); errors.Is(err, fs.ErrNotExist) {
		return outcome{findings: []Finding{finding(groupRecords, "store", OK, "there is no session yet")}}
	}
	st, err := store.Open(ctx, p.ground().Database(), nil)
	if err != nil {
		return outcome{findings: []Finding{found(groupRecords, "store", Failed, err, "keep the file, which is untouched, and restore a backup of it")}}
	}
	list, err := p.readRecords(ctx, st)
	if err = errors.Join(err, st.Close()); err != nil {
		list = append(list, found(groupRecords, "store", Failed, err, "keep the file, which is untouched, and restore a backup of it"))
	}
	return outcome{findings: list}
}

func (p *patient) readRecords(ctx context.Context, st *store.Store) ([]Finding, error) {
	var sessions []*store.Session
	err := st.View(ctx, func(tx *store.Tx) (err error) {
		sessions, err = tx.Sessions(store.SessionFilter{})
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := p.unreadable(ctx, st, sessions)
	if err != nil {
		return list, err
	}
	list = append(list, p.unsupervised(ctx, sessions)...)
	left, err := leftovers(ctx, st, sessions)
	list = append(list, left...)
	if err == nil && len(list) == 0 {
		list = append(list, finding(groupRecords, "store", OK, fmt.Sprintf("%d sessions, all readable; each that should be supervised is; no process is left over", len(sessions))))
	}
	return list, err
}

// unreadable names the records that this build refuses: those whose folder is
// there and whose row is not among the readable ones.
func (p *patient) unreadable(ctx context.Context, st *store.Store, sessions []*store.Session) ([]Finding, error) {
	readable := map[string]bool{} // id of a session or job
	for _, s := range sessions {
		readable[s.SessionID] = true
	}
	var jobs []*store.Job
	err := st.View(ctx, func(tx *store.Tx) (err error) {
		jobs, err = tx.Jobs(store.JobFilter{})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		readable[j.JobID] = true
	}
	var list []Finding
	report := func(kind, id string, err error) {
		if core.KindOf(err) == core.KindNotFound { // a folder without a row is garbage, not damage
			return
		}
		list = append(list, found(groupRecords, kind+" "+id, Warning, err, "use the build that wrote it; the record is untouched"))
	}
	err = st.View(ctx, func(tx *store.Tx) error {
		for _, id := range unknown(filepath.Dir(p.ground().SessionDir("x")), readable) {
			if _, err := tx.Session(id); err != nil {
				report("session", id, err)
			}
		}
		for _, id := range unknown(filepath.Dir(p.ground().JobDir("x")), readable) {
			if _, err := tx.Job(id); err != nil {
				report("job", id, err)
			}
		}
		return nil
	})
	return list, err
}

// unknown lists the folders in dir that are named like an id and not known.
func unknown(dir string, known map[string]bool) []string {
	entries, _ := os.ReadDir(dir) // what can't be listed holds nothing to name
	var ids []string
	for _, e := range entries {
		if e.IsDir() && core.ValidID(e.Name()) && !known[e.Name()] {
			ids = append(ids, e.Name())
		}
	}
	return ids
}

// unsupervised names the sessions that are at work by their record and have
// no supervisor that answers.
func (p *patient) unsupervised(ctx context.Context, sessions []*store.Session) []Finding {
	var list []Finding
	for _, s := range sessions {
		if !supervised(s.Status) {
			continue
		}
		hello, cancel := context.WithTimeout(ctx, helloLimit)
		_, err := control.Dial(p.ground().ControlSocket(s.SessionID), &control.ClientOptions{Build: p.Build}).Hello(hello)
		hung := hello.Err() != nil
		cancel()
		if err == nil {
			continue
		}
		f := finding(groupRecords, "session "+s.SessionID, Warning, "it is "+string(s.Status)+" and has no supervisor")
		f.Remedy = "bring it back with `codex-mmo status " + s.SessionID + "`"
		if hung {
			f.Reason = "its supervisor holds the socket and does not answer"
			f.Remedy = "see supervisor.log in " + p.ground().SessionDir(s.SessionID) + ", and `codex-mmo status " + s.SessionID + "`"
		}
		list = append(list, f)
	}
	return list
}

// supervised reports whether a session in this status is to have a supervisor:
// not when it has ended, nor when it rests until somebody resumes it.
func supervised(status core.SessionStatus) bool {
	return !status.Terminal() && status != core.SessionSuspended && status != core.SessionPaused
}

// leftovers names living processes of sessions that have ended: those that a
// launch on record names, and those that carry the mark of an agent.
func leftovers(ctx context.Context, st *store.Store, sessions []*store.Session) ([]Finding, error) {
	ended := map[string]bool{} // session id -> it has ended
	for _, s := range sessions {
		ended[s.SessionID] = s.Status.Terminal()
	}
	marked, err := process.Marked(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	left := map[string]process.Identity{} // session id and pid -> process
	var order []string
	add := func(session string, id process.Identity) {
		key := fmt.Sprintf("%s %d", session, id.PID)
		if _, seen := left[key]; !seen {
			order = append(order, key)
		}
		left[key] = id
	}
	err = st.View(ctx, func(tx *store.Tx) error {
		launches, err := tx.Launches(store.LaunchFilter{Open: true})
		if err != nil {
			return err
		}
		for _, l := range launches {
			if id := identityOf(l.Process); ended[l.SessionID] && id.Alive() {
				add(l.SessionID, id)
			}
		}
		for _, id := range marked {
			run, err := tx.AgentRun(agentOf(id))
			if err == nil && ended[run.SessionID] {
				add(run.SessionID, id)
			}
		}
		return nil
	})
	var list []Finding
	for _, key := range order {
		session, _, _ := strings.Cut(key, " ")
		f := finding(groupRecords, "session "+session, Warning, fmt.Sprintf("it has ended and %s lives on", left[key]))
		f.Remedy = fmt.Sprintf("see `codex-mmo status %s`; if it is not at its end, kill it: kill %d", session, left[key].PID)
		list = append(list, f)
	}
	return list, err
}

// agentOf returns the agent run that a marked process belongs to, or nothing
// when it has ended meanwhile. Agents of other state folders are in no record
// here.
func agentOf(id process.Identity) string {
	env, err := process.Environ(id.PID)
	if err != nil || !id.Alive() {
		return ""
	}
	ref, _, _ := strings.Cut(env[process.MarkEnv], "/")
	return ref
}

func identityOf(p store.Process) process.Identity {
	return process.Identity{PID: p.PID, StartToken: p.StartToken, BootID: p.BootID, PGID: p.PGID, SID: p.SID, Command: p.Command}
}
