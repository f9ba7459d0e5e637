package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// sessionTimeout bounds one session of the offline team.
const sessionTimeout = 3 * time.Minute

// worker is what was seen of one job.
type worker struct {
	ref, agent string
	sampled    bool
	wall       float64 // ms from admission to an open thread
	cpu        float64 // ms of its processes until then
	wake       float64 // µs from the end being published to a waiter's answer
	ours       memory  // host and MCP process
	engine     memory  // its Codex
}

// measureTeam runs sessions of the bundled offline team, and after each as
// many bare app-servers as it had workers, on the same homes.
func measureTeam(ctx context.Context, env bench, n int) ([]figure, error) {
	var workers []worker
	var floors []engineStart
	for len(workers) < n {
		seen, homes, err := runTeam(ctx, env)
		if err != nil {
			return nil, err
		}
		if len(seen) == 0 {
			return nil, errors.New("the session had no worker")
		}
		bare, err := bareEngines(ctx, env, homes)
		if err != nil {
			return nil, err
		}
		workers, floors = append(workers, seen...), append(floors, bare...)
	}
	trips, err := roundTrips(ctx, env.dir, 100*n)
	if err != nil {
		return nil, err
	}
	wakes, err := wakeUps(ctx, env.dir, 10*n)
	if err != nil {
		return nil, err
	}
	return teamFigures(workers, floors, trips, wakes), nil
}

func teamFigures(workers []worker, floors []engineStart, trips, wakes []float64) []figure {
	wall := figure{what: "worker start, wall", floor: "bare app-server", unit: "ms", at: 0.5, atMost: 1.2}
	cpu := figure{
		what: "worker start, CPU", floor: "bare app-server", unit: "ms", at: 0.5, atMost: 1.2,
		comment: "host, app-server and MCP process against app-server and an empty MCP server; a little of the first turn is in the former",
	}
	wake := figure{what: "wait wake-up", floor: "unix-socket round trip", unit: "µs", at: 0.5, atMost: 20, floors: trips}
	tail := figure{what: "wait wake-up", floor: "bare wake-up", unit: "µs", at: 0.99, floors: wakes}
	private := figure{what: "memory per worker, private", floor: "12 MB", unit: "MB", at: 0.5, atMost: 1, floors: []float64{12}}
	rss := figure{what: "memory per worker, RSS", floor: "its Codex", unit: "MB", at: 0.5, atMost: 0.3}
	for _, w := range workers {
		wall.values = append(wall.values, w.wall)
		cpu.values = append(cpu.values, w.cpu)
		wake.values = append(wake.values, w.wake)
		private.values = append(private.values, w.ours.private)
		rss.values = append(rss.values, w.ours.rss)
		rss.floors = append(rss.floors, w.engine.rss)
	}
	for _, f := range floors {
		wall.floors = append(wall.floors, f.wall)
		cpu.floors = append(cpu.floors, f.cpu)
	}
	tail.values = wake.values
	return []figure{wall, cpu, wake, tail, private, rss}
}

// runTeam runs one session and returns what was seen of its workers, and the
// home of each.
func runTeam(ctx context.Context, env bench) (workers []worker, homes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	before, err := sessions(env)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, env.binary, "exec", "offline-demo", "look around and report")
	cmd.Env, cmd.Dir = env.environ(), env.workspace()
	var shown bytes.Buffer
	cmd.Stderr = &shown
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err = errors.Join(err, cmd.Wait()); err != nil {
			err = fmt.Errorf("%w; exec said:\n%s", err, shown.Bytes())
		}
	}()
	id, err := newSession(ctx, env, before)
	if err != nil {
		return nil, nil, errors.Join(err, cmd.Process.Kill())
	}
	where := folders.Folders{State: env.state(), Runtime: env.runtime()}
	watch := newWatch(control.Dial(where.ControlSocket(id), &control.ClientOptions{Build: "mmo-bench", Retry: 10 * time.Second}))
	if err := watch.run(ctx); err != nil {
		return nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	for _, w := range watch.done() {
		workers = append(workers, w)
		homes = append(homes, filepath.Join(where.SessionDir(id), "homes", w.agent))
	}
	return workers, homes, nil
}

func sessions(env bench) (map[string]bool, error) {
	entries, err := os.ReadDir(filepath.Join(env.state(), "sessions"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	found := map[string]bool{}
	for _, entry := range entries {
		found[entry.Name()] = true
	}
	return found, nil
}

// newSession waits for the folder of the session that was just started. It is
// the one moment at which there is nobody to be told by.
func newSession(ctx context.Context, env bench, before map[string]bool) (string, error) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		now, err := sessions(env)
		if err != nil {
			return "", err
		}
		for id := range now {
			if !before[id] {
				return id, nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no session appeared: %w", context.Cause(ctx))
		}
	}
}

// watch follows one session and measures its workers. Each job has a waiter
// that parks when the job is first seen, as a root's agents_wait does.
type watch struct {
	client *control.Client
	wg     sync.WaitGroup

	mu       sync.Mutex
	workers  map[string]*worker   // job id -> what is known
	ended    map[string]time.Time // job id -> when its end was published
	answered map[string]time.Time // job id -> when its waiter had the answer
	errs     []error
}

func newWatch(client *control.Client) *watch {
	return &watch{
		client: client, workers: map[string]*worker{},
		ended: map[string]time.Time{}, answered: map[string]time.Time{},
	}
}

// run returns when the session has ended and all waiters have answers.
func (w *watch) run(ctx context.Context) error {
	over := false
	err := w.client.Follow(ctx, control.Meta{}, control.FollowRequest{}, func(event control.FollowEvent) error {
		switch event.Type {
		case "job":
			w.job(ctx, event)
		case "session":
			over = core.SessionStatus(event.Status).Terminal()
		}
		return nil
	})
	w.wg.Wait()
	if over {
		err = nil // the supervisor ends with the session, and may end the stream first
	}
	return errors.Join(append(w.errs, err)...)
}

func (w *watch) job(ctx context.Context, event control.FollowEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.workers[event.JobID] == nil {
		w.workers[event.JobID] = &worker{agent: event.Agent}
		w.wg.Go(func() { w.fail(w.wait(ctx, event.JobID)) })
	}
	status := core.JobStatus(event.Status)
	switch {
	case status == core.JobRunning && !w.workers[event.JobID].sampled:
		w.workers[event.JobID].sampled = true // not again after a recovery
		w.wg.Go(func() { w.fail(w.sample(ctx, event.JobID)) })
	case status.Terminal() && w.ended[event.JobID].IsZero():
		w.ended[event.JobID] = event.At
	}
}

func (w *watch) fail(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, err)
	}
}

// wait is the parked waiter.
func (w *watch) wait(ctx context.Context, job string) error {
	_, err := w.client.Wait(ctx, control.Meta{}, control.WaitRequest{JobIDs: []string{job}, TimeoutSeconds: sessionTimeout.Seconds()})
	now := time.Now()
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", job, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered[job] = now
	return nil
}

// sample measures the processes of a job whose thread has just opened.
func (w *watch) sample(ctx context.Context, job string) error {
	view, err := w.client.Session(ctx, control.Meta{})
	if err != nil {
		return err
	}
	seen := worker{sampled: true}
	for _, j := range view.Jobs {
		if j.JobID == job && j.StartedAt != nil {
			seen.ref, seen.agent, seen.wall = j.AgentRunRef, j.Agent, milliseconds(j.StartedAt.Sub(j.CreatedAt))
		}
	}
	for _, p := range view.Processes {
		if p.Owner != seen.ref || seen.ref == "" {
			continue
		}
		if err := seen.add(p); err != nil {
			return fmt.Errorf("%s of %s: %w", p.Role, job, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	*w.workers[job] = seen
	return nil
}

// add measures one process of the worker; the host's CPU time holds that of
// all below it.
func (w *worker) add(p control.ProcessView) (err error) {
	switch p.Role {
	case "host":
		if w.cpu, err = cpuOf(p.PID); err != nil {
			return err
		}
		m, err := memoryOf(p.PID)
		w.ours.private, w.ours.rss = w.ours.private+m.private, w.ours.rss+m.rss
		return err
	case "app-server":
		if w.engine, err = memoryOf(p.PID); err != nil {
			return err
		}
		below, err := children(p.PID)
		if err != nil {
			return err
		}
		for _, child := range below {
			if !isMCP(child) {
				continue
			}
			m, err := memoryOf(child)
			if err != nil {
				return err
			}
			w.ours.private, w.ours.rss = w.ours.private+m.private, w.ours.rss+m.rss
		}
	}
	return nil
}

// done returns the workers that were seen from start to end.
func (w *watch) done() []worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []worker
	for job, seen := range w.workers {
		if w.ended[job].IsZero() || w.answered[job].IsZero() || seen.cpu == 0 {
			continue
		}
		seen.wake = microseconds(w.answered[job].Sub(w.ended[job]))
		all = append(all, *seen)
	}
	return all
}
