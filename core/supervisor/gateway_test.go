package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// gatewayRig is a running session whose gateway is this test binary.
func gatewayRig(t *testing.T) *rig {
	t.Helper()
	return usesPlayedGateway(newRig(t, core.SessionRunning))
}

// another makes a second session of the same team in the same place.
func (r *rig) another(id string) *rig {
	r.t.Helper()
	in := &CreateInput{Folders: r.cfg.Folders, Prompt: "go", Kind: kindNoninteractive, Now: r.sess.CreatedAt, Random: rand.Reader}
	if err := record(r.t.Context(), in, r.snap, draftSession(in, r.snap, id, r.sess.Workspace), nil); err != nil {
		r.t.Fatal(err)
	}
	cfg := *r.cfg
	cfg.SessionID = id
	s, err := open(r.t.Context(), &cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.store.Close() })
	s.life, s.end = context.WithCancelCause(r.t.Context())
	return usesPlayedGateway(&rig{Supervisor: s, t: r.t})
}

func usesPlayedGateway(r *rig) *rig {
	err := r.updateSession(r.t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.Binary = store.BinaryPin{Path: testBinary()}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		r.end(errEnded)
		r.wg.Wait()
	})
	return r
}

// opened opens the session's gateway, which ends with the test.
func (r *rig) opened() *gatewayLink {
	r.t.Helper()
	g, err := r.openGateway(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.gw.Store(g)
	r.t.Cleanup(func() {
		g.close()
		if _, err := process.Retire(context.Background(), gatewayProcess(g), nil); err != nil {
			r.t.Error(err)
		}
	})
	return g
}

func gatewayProcess(g *gatewayLink) process.Identity {
	plugin, _ := g.current()
	return plugin.Identity()
}

// refuse makes the gateways of a link refuse its routes until the returned
// function is called.
func refuse(t *testing.T, g *gatewayLink) (nowTake func()) {
	t.Helper()
	path := filepath.Join(g.dir(), refuseFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGatewayIsArmedAgain: a gateway that could not be told its routes is told
// them again until it takes them.
func TestGatewayIsArmedAgain(t *testing.T) {
	t.Parallel()
	r := gatewayRig(t)
	g := r.opened()
	base, first := g.baseURL(), gatewayProcess(g)
	r.wg.Go(func() { g.run(r.life) })
	take := refuse(t, g)
	testkit.Kill9(t, first)
	get(t, base, "/refused?n=2")
	take()
	get(t, base, "/armed?n=1")
	if now := gatewayProcess(g); now.Same(first) || !now.Alive() {
		t.Errorf("the gateway is %v after %v was killed", now, first)
	}
}

// TestRouteThatTheGatewayRefuses: a route that the gateway can't use is not
// offered to spawns, with its reason, until it can.
func TestRouteThatTheGatewayRefuses(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := usesPlayedGateway(teamRig(t, place, "s1", place.Workspace, roomy, ""))
	g := r.opened()
	path := filepath.Join(g.dir(), unavailableFile)
	if err := os.WriteFile(path, []byte("base_url is\nno URL"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(want store.Availability, reason string) {
		t.Helper()
		if err := g.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]store.Availability{"offline": want}, r.cachedSession().RouteAvailability); diff != "" {
			t.Errorf("the session's routes (-want +got):\n%s", diff)
		}
		var refusal *core.Error
		if _, err := r.spawn(r.lead(), control.SpawnSpec{Agent: "reader", Task: "x"}); errors.As(err, &refusal) != (reason != "") || refusal != nil && refusal.Reason != reason {
			t.Errorf("a spawn on the route gave %v, want the reason %q", err, reason)
		}
	}
	check(store.Availability{Reason: "the gateway can't use it: base_url is no URL"}, "route_unavailable")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check(store.Availability{Available: true}, "")
}

// TestGatewayIsToldOfSpans: what decides about spans reaches the gateway; the
// headers of the endpoint, which hold keys, do not.
func TestGatewayIsToldOfSpans(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_HEADERS": "key=k",
	}
	want := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318", "OTEL_SDK_DISABLED=true"}
	if diff := cmp.Diff(want, BaseEnv(func(name string) string { return env[name] })); diff != "" {
		t.Errorf("the gateway's environment (-want +got):\n%s", diff)
	}
}

// TestTelemetryIsOpenedAgain: a stream that ends under a living gateway is
// opened again.
func TestTelemetryIsOpenedAgain(t *testing.T) {
	t.Parallel()
	r := gatewayRig(t)
	g := r.opened()
	r.wg.Go(func() { g.run(r.life) })
	get(t, g.baseURL(), "/streams?n=2")
}

// TestEverySessionKeepsThePort: whoever started the gateway, each session that
// uses it can bring it back on its port, and requests wait meanwhile.
func TestEverySessionKeepsThePort(t *testing.T) {
	t.Parallel()
	starter := gatewayRig(t)
	user := starter.another("s2")
	g1, g2 := starter.opened(), user.opened()
	first, base := gatewayProcess(g1), g1.baseURL()
	if got := gatewayProcess(g2); !got.Same(first) || g2.baseURL() != base {
		t.Fatalf("the second session has gateway %v at %s, want %v at %s", got, g2.baseURL(), first, base)
	}
	g1.close()
	testkit.Kill9(t, first)

	conn, err := net.DialTimeout("tcp", addressOf(base), testkit.Patience)
	if err != nil {
		t.Fatalf("the port was lost with the gateway: %v", err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /v1/armed?n=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := g2.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := gatewayProcess(g2); got.Same(first) || g2.baseURL() != base {
		t.Errorf("after the loss the gateway is %v at %s, want another one at %s", got, g2.baseURL(), base)
	}
	answer := make([]byte, len("HTTP/1.1 200"))
	if err := conn.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("the request that waited got %q, %v", answer, err)
	}
}

// TestPortOfAnEarlierGatewayIsDropped: nothing waits for ever on a port that no
// gateway will serve.
func TestPortOfAnEarlierGatewayIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	g := &gatewayLink{sup: r.Supervisor, hash: r.snap.GatewayHash}
	if _, err := g.listen(nil); err != nil {
		t.Fatal(err)
	}
	held := g.port
	g.holdPort(t.Context(), &store.Gateway{Instance: "g1", BaseURL: "http://" + held.address + "/v1"})
	if g.port.file == nil {
		t.Fatal("the port was dropped while its gateway lives")
	}
	g.holdPort(t.Context(), &store.Gateway{Instance: "g2", BaseURL: "http://127.0.0.1:1/v1"})
	if g.port != (heldPort{}) {
		t.Errorf("the link holds %+v, want nothing", g.port)
	}
	if _, err := held.file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the dropped socket is open: %v", err)
	}
}

// TestFetchListener takes the gateway's own listener and nothing else.
func TestFetchListener(t *testing.T) {
	t.Parallel()
	listen := func() *net.TCPListener {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.(*net.TCPListener)
	}
	own, other := listen(), listen()
	for _, tt := range []struct {
		name string
		sent []*net.TCPListener
		want string // in the error
	}{
		{"its listener", []*net.TCPListener{own}, ""},
		{"another socket", []*net.TCPListener{other}, "not its listener on " + own.Addr().String()},
		{"two sockets", []*net.TCPListener{own, other}, "2 descriptors"},
		{"nothing", nil, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(testkit.PrivateDir(t), "s")
			socket, err := handOut(path, tt.sent...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = socket.Close() })
			file, err := fetchListener(t.Context(), path, own.Addr().String())
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = file.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("fetchListener = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestAdoptGateway: an end that is taken up again releases a gateway that lives
// and starts none.
func TestAdoptGateway(t *testing.T) {
	t.Parallel()
	r := gatewayRig(t)
	none := func(when string) {
		t.Helper()
		if g, err := r.adoptGateway(t.Context()); g != nil || err != nil {
			t.Fatalf("%s adoptGateway = %v, %v, want none", when, g, err)
		}
	}
	none("before any start")
	id := gatewayProcess(r.opened())
	r.gw.Load().close() // as a crash would
	g, err := r.adoptGateway(t.Context())
	if err != nil || g == nil || !gatewayProcess(g).Same(id) {
		t.Fatalf("adoptGateway = %v, %v, want the one that lives", g, err)
	}
	g.release(t.Context())
	if id.Alive() {
		t.Error("the gateway that was released by its last session lives")
	}
	none("after the release")
	row, err := g.row(t.Context())
	if err != nil || row.Status != "stopped" || row.Process != (store.Process{}) {
		t.Errorf("the row is %+v, %v, want stopped", row, err)
	}
}

// TestLeavingEndsNoGateway: a supervisor that is told to leave while it looks
// for the gateway does not take it for a silent one, which is replaced.
func TestLeavingEndsNoGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sleep.Wait() }()
	silent, err := process.Lookup(sleep.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	g := &gatewayLink{sup: r.Supervisor, hash: r.snap.GatewayHash}
	row := &store.Gateway{Instance: "g1", Status: "running", Process: recordOf(silent), Protocol: 1, Socket: filepath.Join(g.runtimeDir("g1"), "s")}

	leaving, leave := context.WithCancelCause(t.Context())
	leave(errDetach)
	if plugin, err := g.adopt(leaving, row); plugin != nil || !errors.Is(err, errDetach) {
		t.Errorf("adopt = %v, %v, want %v", plugin, err, errDetach)
	}
	if !silent.Alive() {
		t.Fatal("the gateway was ended by a supervisor that leaves")
	}
	if plugin, err := g.adopt(t.Context(), row); plugin != nil || err != nil {
		t.Errorf("adopt = %v, %v, want none: it does not answer", plugin, err)
	}
	testkit.Await(t, ended, "the end of the silent gateway")
}

// TestRehold: once a new host has adopted an agent's engine, the host is what
// holds the agent's bearer, and nobody else's.
func TestRehold(t *testing.T) {
	t.Parallel()
	r := gatewayRig(t)
	g := r.opened()
	agentOf := func(ref string, host int) *agent {
		a := r.newAgent(&store.AgentRun{AgentRef: ref, SessionID: "s1", Agent: "lead", Model: "m", Route: "offline"}, r.snap.Agents["lead"])
		a.rec.Host.Process = store.Process{PID: host, StartToken: "1", BootID: "b"}
		if err := a.save(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := g.issue(t.Context(), a, 1); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := agentOf("ar_a", 101)
	agentOf("ar_b", 102)
	a.rec.Host.Process.PID = 103
	if err := g.rehold(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	var hashes, holders []string
	for line := range strings.Lines(get(t, g.baseURL(), "/issued?n=3")) {
		hash, holder, _ := strings.Cut(strings.TrimSpace(line), " ")
		hashes, holders = append(hashes, hash), append(holders, holder)
	}
	if diff := cmp.Diff([]string{"101", "102", "103"}, holders); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if hashes[2] != hashes[0] || hashes[1] == hashes[0] {
		t.Errorf("the bearers are %v, want the third to be the first again", hashes)
	}
}

// TestEnginesOfOldURL: after a crash between the replacement of the gateway and
// that of the engines, the engines that were told the old address are found.
func TestEnginesOfOldURL(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.gw.Store(&gatewayLink{sup: r.Supervisor, homes: "http://127.0.0.1:2/v1"})
	for ref, url := range map[string]string{
		"ar_new": "http://127.0.0.1:2/v1", "ar_old": "http://127.0.0.1:1/v1", "ar_unlaunched": "", "ar_older": "http://127.0.0.1:3/v1",
	} {
		r.newAgent(&store.AgentRun{AgentRef: ref, GatewayURL: url}, r.snap.Agents["worker"])
	}
	var got []string
	for _, a := range r.enginesOfOldURL() {
		got = append(got, a.ref)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"ar_old", "ar_older"}, got); diff != "" {
		t.Errorf("engines (-want +got):\n%s", diff)
	}
}
