package hostplugin

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/codex-mmo/codex-mmo/core/process"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// maxSocketPath is the longest path of a socket, in bytes: the kernel's limit
// is 107 and tools differ in what they do beyond.
const maxSocketPath = 99

var (
	agentRef = regexp.MustCompile(`^ar_[A-Za-z0-9_-]{1,64}$`)
	digest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Launch implements hostpb.HostServer.
func (h *Host) Launch(_ context.Context, req *hostpb.LaunchRequest) (*hostpb.LaunchResponse, error) {
	if err := h.fence.check(req.GetFence()); err != nil {
		return nil, err
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	handle, err := h.launch(req)
	if err != nil {
		return &hostpb.LaunchResponse{Failure: wireFailure(err)}, nil
	}
	return &hostpb.LaunchResponse{Handle: handle, Command: append([]string{req.GetEnginePath()}, engineArgs(req)...)}, nil
}

// engineArgs are the arguments of the engine that the request asks for.
func engineArgs(req *hostpb.LaunchRequest) []string {
	return append([]string{"app-server", "--listen", "unix://" + req.GetSocketPath()}, req.GetEngineArgs()...)
}

func (h *Host) launch(req *hostpb.LaunchRequest) (*hostpb.Handle, error) {
	if err := checkLaunch(req); err != nil {
		return nil, err
	}
	if e := h.current(); e != nil {
		now := e.snapshot()
		switch {
		case now.GetAgentRef() != req.GetAgentRef():
			return nil, failf("wrong_agent", "this host serves %s", now.GetAgentRef())
		case now.GetGeneration() == req.GetGeneration():
			return now, nil
		case now.GetGeneration() > req.GetGeneration():
			return nil, failf("generation_old", "generation %d is over; this host is at %d", req.GetGeneration(), now.GetGeneration())
		case e.id.Alive():
			return nil, failf("engine_running", "the engine of generation %d still runs as pid %d; stop it first", now.GetGeneration(), e.id.PID)
		}
		<-e.gone
	}
	s, err := h.openStore(req.GetSpoolDir())
	if err != nil {
		return nil, err
	}
	if err := s.spool.Begin(req.GetGeneration()); err != nil {
		return nil, err
	}
	// A host that died between exec and its answer leaves the handle here.
	if handle := s.launches[req.GetGeneration()]; handle != nil {
		return handle, h.adopt(handle, s)
	}
	return h.startEngine(req, s)
}

func (h *Host) startEngine(req *hostpb.LaunchRequest, s *store) (*hostpb.Handle, error) {
	child, err := process.Start(process.Spec{
		Path:       req.GetEnginePath(),
		SHA256:     req.GetEngineSha256(),
		Stamp:      req.GetEngineStamp(),
		Args:       engineArgs(req),
		Env:        environment(req),
		Dir:        req.GetCwd(),
		StderrPath: req.GetStderrPath(),
	})
	if err != nil {
		return nil, err
	}
	handle := &hostpb.Handle{
		Version: HandleVersion, AgentRef: req.GetAgentRef(), Generation: req.GetGeneration(),
		Engine: wireProcess(child.Identity()), SocketPath: req.GetSocketPath(),
		SpoolDir: req.GetSpoolDir(), Cwd: req.GetCwd(),
	}
	if err := s.recordLaunch(handle); err != nil {
		_ = child.Kill() // what can't be recorded must not run
		<-child.Done()
		return nil, err
	}
	s.launches[req.GetGeneration()] = handle
	e := h.newEngine(handle, s)
	e.child, e.stderr = child, req.GetStderrPath()
	h.setEngine(e)
	h.spawn(func() { h.watchExit(e, child.Done()) })
	return e.snapshot(), nil
}

// environment is what the engine gets: what the request names, and the home.
func environment(req *hostpb.LaunchRequest) []string {
	env := []string{"CODEX_HOME=" + req.GetEngineHome()}
	for name, value := range req.GetEnv() {
		if name != "CODEX_HOME" {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

// checkLaunch refuses what a supervisor never sends.
func checkLaunch(req *hostpb.LaunchRequest) error {
	paths := map[string]string{
		"engine_path": req.GetEnginePath(), "engine_home": req.GetEngineHome(), "cwd": req.GetCwd(),
		"socket_path": req.GetSocketPath(), "spool_dir": req.GetSpoolDir(), "stderr_path": req.GetStderrPath(),
	}
	for name, path := range paths {
		if !filepath.IsAbs(path) {
			return failf("invalid", "launch: %s must be an absolute path", name)
		}
	}
	switch {
	case !agentRef.MatchString(req.GetAgentRef()):
		return failf("invalid", "launch: agent_ref must look like ar_…")
	case req.GetGeneration() == 0:
		return failf("invalid", "launch: generation must be at least 1")
	case !digest.MatchString(req.GetEngineSha256()):
		return failf("invalid", "launch: engine_sha256 must be 64 hex digits")
	case len(req.GetSocketPath()) > maxSocketPath:
		return failf("invalid", "launch: socket path has %d bytes, the most is %d; set MMO_RUNTIME_DIR to a shorter folder",
			len(req.GetSocketPath()), maxSocketPath)
	}
	return nil
}
