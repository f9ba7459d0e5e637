package pluginhost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// Bounds of what is kept and waited for of a plugin's output.
const (
	keptOutput = 4 << 10 // bytes
	// lastWords is how long a process that broke the handshake may take to end
	// by itself, and what a dead one printed to be read when a descendant still
	// holds the other end of the pipe.
	lastWords = 300 * time.Millisecond
)

// lentPipe is a plugin's stdout. go-plugin borrows the read end until it is
// taken back; what it read first is kept for error texts.
type lentPipe struct {
	read, write *os.File
	borrowed    bool
	returned    chan struct{} // closed when the borrower reads no more
	once        sync.Once     // guards returned

	mu   sync.Mutex
	head bytes.Buffer // at most keptOutput bytes
}

func newLentPipe() (*lentPipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &lentPipe{read: read, write: write, returned: make(chan struct{})}, nil
}

// lend is called before the borrower begins to read. The loan ends soon after
// done is closed, or when it is taken back.
func (p *lentPipe) lend(done <-chan struct{}) {
	p.borrowed = true
	go func() {
		select {
		case <-done:
			_ = p.read.SetReadDeadline(time.Now().Add(lastWords))
		case <-p.returned:
		}
	}()
}

// giveBack is called when the borrower reads no more, for whatever reason.
func (p *lentPipe) giveBack() { p.once.Do(func() { close(p.returned) }) }

// Read implements io.Reader for the borrower.
func (p *lentPipe) Read(b []byte) (int, error) {
	n, err := p.read.Read(b)
	p.mu.Lock()
	p.head.Write(b[:min(n, keptOutput-p.head.Len())])
	p.mu.Unlock()
	if err != nil {
		err = io.EOF // the deadline of the loan is its end
	}
	return n, err
}

// Close is the borrower's and does nothing.
func (p *lentPipe) Close() error { return nil }

// cut ends the loan now.
func (p *lentPipe) cut() { _ = p.read.SetReadDeadline(time.Unix(1, 0)) }

// takeBack ends the loan and waits until the borrower reads no more.
func (p *lentPipe) takeBack() error {
	p.cut()
	<-p.returned
	return p.read.SetReadDeadline(time.Time{})
}

// close ends the loan after the process has ended, with all that it printed.
func (p *lentPipe) close() {
	if p.borrowed {
		<-p.returned
	}
	_ = p.read.Close()
	_ = p.write.Close()
}

// printed returns the beginning of what was read.
func (p *lentPipe) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head.String()
}

// drainTo copies what still comes on stdout to the log, so that the plugin
// never stands still. The end of the plugin's stdout, or the function that it
// returns, ends it.
func (p *lentPipe) drainTo(logPath string) (func() error, error) {
	log, err := os.OpenFile(logPath, os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open plugin log: %w", err)
	}
	var drained sync.WaitGroup
	drained.Go(func() {
		_, _ = io.Copy(log, p.read)
		_ = log.Close()
	})
	return func() error {
		err := p.read.Close()
		drained.Wait()
		return err
	}, nil
}

// said tells what a failed plugin printed, quoted because it may hold
// anything, or "".
func said(what, output string) string {
	if output == "" {
		return ""
	}
	return fmt.Sprintf("; its %s: %q", what, output)
}

// fileSize returns the size of a file in bytes; 0 when there is none.
func fileSize(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logTail returns the end of what was written to a log after the given offset,
// at most keptOutput bytes.
func logTail(path string, offset int64) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	size := fileSize(path)
	offset = max(offset, size-keptOutput)
	tail, err := io.ReadAll(io.NewSectionReader(f, offset, max(0, size-offset)))
	if err != nil {
		return err.Error()
	}
	return string(tail)
}
