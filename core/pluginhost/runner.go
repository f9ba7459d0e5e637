package pluginhost

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// launch is one start under way. It is what go-plugin calls a runner: it runs
// the process and lends go-plugin its stdout until the handshake is read.
//
// go-plugin's goroutines end with that: the lent stdout ends, and Wait returns.
type launch struct {
	spec   process.Spec
	record func(process.Identity) error
	stdout *lentPipe
	child  *process.Child // nil until the process runs
	failed error          // why Start failed, before any handshake

	lent     chan struct{} // closed when go-plugin needs nothing more
	lentOnce sync.Once
}

var _ runner.Runner = (*launch)(nil)

func newLaunch(spec *Spec, record func(process.Identity) error) (*launch, error) {
	stdout, err := newLentPipe()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "start plugin %s: %w", spec.Path, err)
	}
	return &launch{
		spec: process.Spec{
			Path: spec.Path, SHA256: spec.SHA256, Stamp: spec.Stamp, Args: spec.Args,
			Stdout: stdout.write, StderrPath: spec.LogPath, ExtraFiles: spec.ExtraFiles,
		},
		record: record,
		stdout: stdout,
		lent:   make(chan struct{}),
	}, nil
}

// Start runs the process and has its identity recorded before anything of it
// is read.
func (l *launch) Start(context.Context) error {
	l.child, l.failed = process.Start(l.spec)
	_ = l.stdout.write.Close() // the process has its own
	if l.failed != nil {
		return l.failed
	}
	if err := l.record(l.child.Identity()); err != nil {
		l.failed = core.Errorf(core.KindOf(err), "record its identity: %w", err)
		return l.failed
	}
	l.stdout.lend(l.child.Done())
	return nil
}

// Wait is called when go-plugin reads no more, and returns when it has nothing
// more to do with the process.
func (l *launch) Wait(context.Context) error {
	l.stdout.giveBack()
	<-l.lent
	return nil
}

// release lets Wait return.
func (l *launch) release() { l.lentOnce.Do(func() { close(l.lent) }) }

// Kill does nothing: whoever called for the start ends the process, once.
func (l *launch) Kill(context.Context) error { return nil }

// Stdout is read for the handshake line.
func (l *launch) Stdout() io.ReadCloser { return l.stdout }

// Stderr is empty: the process logs to its own file.
func (l *launch) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Diagnose adds nothing: the caller adds what the process printed.
func (l *launch) Diagnose(context.Context) string { return "" }

// Name returns the executable's path.
func (l *launch) Name() string { return l.spec.Path }

// ID returns the pid, or "" before the process runs.
func (l *launch) ID() string {
	if l.child == nil {
		return ""
	}
	return strconv.Itoa(l.child.Identity().PID)
}

// PluginToHost returns the address as it is: both sides see the same files.
func (l *launch) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin returns the address as it is.
func (l *launch) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
