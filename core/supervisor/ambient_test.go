package supervisor

import (
	"os/exec"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// clientCall is a call by a client's MCP process.
func clientCall(t *testing.T, id process.Identity, token, thread string) control.Call {
	t.Helper()
	return control.Call{Peer: access.Peer{PID: id.PID, Process: id}, Token: access.Token(token), ThreadID: thread}
}

func self(t *testing.T) process.Identity {
	t.Helper()
	id, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ambientRig is a session that an MCP client leads.
func ambientRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, core.SessionRunning)
	r.edit(func(rec *store.Session) { rec.Kind = KindAmbient })
	return r
}

// TestJoinIsOfOneProcess: only the process that joined may use the capability,
// its first thread leads, another joins once it is dead, and older capabilities
// are worth nothing then.
func TestJoinIsOfOneProcess(t *testing.T) {
	t.Parallel()
	r := ambientRig(t)
	me := self(t)
	operatorHere := control.Call{Operator: true, Peer: access.Peer{PID: me.PID, Process: me}}
	joined, err := r.Join(t.Context(), operatorHere, control.JoinRequest{ClientName: "c"})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := r.identify(t.Context(), clientCall(t, me, joined.Token, "t1"), control.VerbJobs)
	if err != nil || caller.Role != access.RoleRoot || !caller.Grants.Spawns {
		t.Errorf("the client is %+v (%v)", caller, err)
	}
	caller, err = r.identify(t.Context(), clientCall(t, me, joined.Token, "t2"), control.VerbJobs)
	if err != nil || caller.Role != access.RoleNative || caller.Grants.Spawns || access.May(caller, "spawn", access.Job{}, r.state()) == nil {
		t.Errorf("a second thread is %+v (%v)", caller, err)
	}
	stranger := me
	stranger.StartToken += "1" // a pid that was used again
	_, err = r.identify(t.Context(), clientCall(t, stranger, joined.Token, "t1"), control.VerbJobs)
	wantKind(t, "another process with the capability", err, core.KindPermission, "invalid MCP caller capability")

	other := control.Call{Operator: true, Peer: access.Peer{PID: 1, Process: stranger}}
	_, err = r.Join(t.Context(), other, control.JoinRequest{})
	wantKind(t, "a second client", err, core.KindRuntime, "already has a live client")
	r.edit(func(rec *store.Session) { gone := recordOf(stranger); rec.Client = &gone })
	again, err := r.Join(t.Context(), operatorHere, control.JoinRequest{ClientName: "d"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.identify(t.Context(), clientCall(t, me, joined.Token, ""), control.VerbJobs)
	wantKind(t, "the capability of the last client", err, core.KindPermission, "invalid MCP caller capability")
	if rec, _ := r.fresh(); rec.ClientThread != "" || rec.ClientName != "d" || again.Session.Status != "running" {
		t.Errorf("the next client finds thread %q, name %q, status %s", rec.ClientThread, rec.ClientName, again.Session.Status)
	}
	_, err = newRig(t, core.SessionRunning).Join(t.Context(), operatorHere, control.JoinRequest{})
	wantKind(t, "a session that its own agent leads", err, core.KindRuntime, "not by an MCP client")
}

// TestClientIsSeenToLeave: the process that created the session and the one that
// joined it are the same, whatever else the kernel told of it each time.
func TestClientIsSeenToLeave(t *testing.T) {
	t.Parallel()
	r := ambientRig(t)
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := process.Lookup(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	r.edit(func(rec *store.Session) { created := recordOf(id); created.Command = ""; rec.Client = &created })
	r.watchClient()
	call := control.Call{Operator: true, Peer: access.Peer{PID: id.PID, Process: id}}
	if _, err := r.Join(t.Context(), call, control.JoinRequest{}); err != nil {
		t.Fatal(err)
	}
	_ = child.Process.Kill()
	_ = child.Wait() // it was killed
	r.wg.Wait()
	if rec, _ := r.fresh(); rec.Client != nil || rec.Status != core.SessionDetached || rec.ClientLeftAt == nil {
		t.Errorf("without its client the session is %s with %+v since %v", rec.Status, rec.Client, rec.ClientLeftAt)
	}
}

// TestPatienceWithClients: a session with a client, or at rest, waits for
// nothing; without one it completes when nothing is open in it, and is paused
// else.
func TestPatienceWithClients(t *testing.T) {
	t.Parallel()
	r := ambientRig(t)
	r.cfg.AmbientDone = time.Millisecond
	me := recordOf(self(t))
	r.edit(func(rec *store.Session) { rec.Client = &me })
	if wait := r.patience(); wait != 0 {
		t.Errorf("with a client the session waits %s", wait)
	}
	r.edit(func(rec *store.Session) { rec.Client = nil })
	for _, tt := range []struct {
		name string
		job  store.Job
		want time.Duration
	}{
		{"a job at work", store.Job{Status: core.JobRunning}, ambientPause},
		{"an unread result", store.Job{Status: core.JobCompleted, ResultState: core.ResultUnread}, ambientPause},
		{"a patch that was read", store.Job{Status: core.JobCompleted, ResultState: core.ResultRead, Patch: &store.Patch{}}, ambientPause},
		{"a patch that was accepted", store.Job{Status: core.JobCompleted, ResultState: core.ResultAccepted, Patch: &store.Patch{}}, ambientPause},
		{"a patch that is in", store.Job{Status: core.JobCompleted, ResultState: core.ResultIntegrated, Patch: &store.Patch{}}, time.Millisecond},
		{"a patch that was refused", store.Job{Status: core.JobCompleted, ResultState: core.ResultRejected, Patch: &store.Patch{}}, time.Millisecond},
		{"a result that was read", store.Job{Status: core.JobCompleted, ResultState: core.ResultRead}, time.Millisecond},
	} {
		r.mu.Lock()
		r.jobs = map[string]*store.Job{"j": &tt.job}
		r.mu.Unlock()
		if wait := r.patience(); wait != tt.want {
			t.Errorf("with %s the session waits %s, want %s", tt.name, wait, tt.want)
		}
	}
	r.mu.Lock()
	clear(r.jobs)
	r.mu.Unlock()
	r.edit(func(rec *store.Session) { rec.Status = core.SessionDetached })
	r.wg.Go(func() { r.watchAmbient(r.life) })
	<-r.life.Done()
	if rec, _ := r.fresh(); rec.Status != core.SessionCompleted {
		t.Errorf("a session that nobody came back to is %s", rec.Status)
	}
}

// TestClientsLongGone: a session that still has work is paused, with what it
// is about kept, and the next client takes it up.
func TestClientsLongGone(t *testing.T) {
	t.Parallel()
	r := ambientRig(t)
	r.edit(func(rec *store.Session) { rec.Status = core.SessionDetached })
	r.mu.Lock()
	r.jobs["j"] = &store.Job{Status: core.JobCompleted, ResultState: core.ResultUnread}
	r.mu.Unlock()
	if err := r.giveUpClient(t.Context(), ambientPause); err != nil {
		t.Fatal(err)
	}
	if rec, _ := r.fresh(); rec.Status != core.SessionPaused || rec.ColdPausePending {
		t.Errorf("the session is %s, pause pending %v", rec.Status, rec.ColdPausePending)
	}
}
