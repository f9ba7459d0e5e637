package gatewayplugin_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestIdleExit: the gateway ends itself once no host of any tenant has lived
// for the idle time, and not before.
func TestIdleExit(t *testing.T) {
	r := newRig(t, nil, &gatewaypb.StartRequest{IdleExitMs: 60_000})
	holder := func(pid int32) func(*gatewaypb.IssueTokenRequest) {
		return func(req *gatewaypb.IssueTokenRequest) {
			req.Holder = &basepb.Process{Pid: pid, StartToken: "1", BootId: "b"}
		}
	}
	r.issue("s1", "bearer-1", holder(101))
	select {
	case <-r.gateway.Ended():
		t.Fatal("ended with a living host")
	default:
	}

	idle := newRig(t, nil, &gatewaypb.StartRequest{IdleExitMs: 1})
	<-idle.gateway.Ended() // nobody ever held it

	held := newRig(t, nil, nil)
	held.issue("s1", "bearer-1", holder(101))
	held.issue("s2", "bearer-2", holder(102))
	held.issue("s2", "bearer-3", holder(102))
	held.gateway.SetIdle(time.Millisecond)
	held.hosts.kill(101)
	select {
	case <-held.gateway.Ended():
		t.Fatal("ended while a host lives")
	case <-time.After(20 * time.Millisecond): // many idle times
	}
	held.hosts.kill(102)
	<-held.gateway.Ended()
}

// TestStop: refused while a session is served, unless forced; a forced one
// ends what is under way and says how much.
func TestStop(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"a\"\nhold never\n", "m")})
	r.issue("s1", "bearer", nil)
	if _, err := r.gateway.Stop(r.ctx, &gatewaypb.StopRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Stop with a session: %v", err)
	}
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := r.gateway.Stop(r.ctx, &gatewaypb.StopRequest{Force: true, DrainMs: 1})
	if err != nil || !answer.GetStopping() || answer.GetAbortedRequests() != 1 {
		t.Errorf("Stop: %v, %v", answer, err)
	}
	events := readEvents(t, resp.Body)
	if code, message := failed(events); code != "server_error" || message != "the gateway is stopping" {
		t.Errorf("the cut request: %s: %s %s", kinds(events), code, message)
	}
	<-r.gateway.Ended()
}

// TestReleaseEndsRequests: a released session's requests end, and their rows
// are written.
func TestReleaseEndsRequests(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", "model m\nstep\nsay \"a\"\nhold never\n", "m")})
	r.issue("s1", "bearer", nil)
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := r.gateway.Release(r.ctx, &gatewaypb.ReleaseRequest{Tenant: fence("s1", 1)}); err != nil {
		t.Fatal(err)
	}
	events := readEvents(t, resp.Body)
	if code, message := failed(events); code != "invalid_prompt" || message != "the session was released" {
		t.Errorf("the request: %s: %s %s", kinds(events), code, message)
	}
	if rows := r.rows("s1", 0); len(rows) != 1 || rows[0].GetOutcome() != "cancelled" {
		t.Errorf("rows %v", rows)
	}
}
