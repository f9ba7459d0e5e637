package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// childEnv names the database for a copy of the test binary that writes and
// never comes to its commit.
const childEnv = "MMO_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		writeAndHang(path)
		return
	}
	goleak.VerifyTestMain(m)
}

func writeAndHang(path string) {
	s, err := store.Open(context.Background(), path, nil)
	if err == nil {
		err = s.Update(context.Background(), func(tx *store.Tx) error {
			if err := tx.PutSession(session("unfinished")); err != nil {
				return err
			}
			fmt.Println("written")
			_, err := io.Copy(io.Discard, os.Stdin) // until the end of this process
			return err
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestTakeOver(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	first, err := s.TakeOver(t.Context(), "s1")
	if err != nil || first != 1 {
		t.Fatalf("TakeOver = %d, %v, want 1", first, err)
	}
	touch := func(tx *store.Tx) error {
		rec, err := tx.Session("s1")
		if err != nil {
			return err
		}
		rec.Status = core.SessionRunning
		return tx.PutSession(rec)
	}
	if err := s.UpdateAs(t.Context(), "s1", first, touch); err != nil {
		t.Fatalf("UpdateAs by the owner: %v", err)
	}
	other := reopen(t, path)
	second, err := other.TakeOver(t.Context(), "s1")
	if err != nil || second != 2 {
		t.Fatalf("TakeOver = %d, %v, want 2", second, err)
	}
	err = s.UpdateAs(t.Context(), "s1", first, touch)
	wantError(t, "UpdateAs by the former owner", err, core.KindRuntime, "session was taken over")
	if !errors.Is(err, store.ErrTakenOver) {
		t.Errorf("UpdateAs = %v, want ErrTakenOver in its chain", err)
	}
	// PutSession by the second keeps the epoch, which is no part of the record.
	if err := other.UpdateAs(t.Context(), "s1", second, touch); err != nil {
		t.Errorf("UpdateAs by the new owner: %v", err)
	}
	_, err = s.TakeOver(t.Context(), "none")
	wantError(t, "TakeOver of no session", err, core.KindNotFound, "no session")
}

// Each of many writers in two stores finds what the one before wrote.
func TestWritersTakeTurns(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	other := reopen(t, path)
	const writers, each = 8, 5
	var wg sync.WaitGroup
	failures := make(chan error, writers*each)
	for i := range writers {
		wg.Go(func() {
			for range each {
				failures <- []*store.Store{s, other}[i%2].Update(t.Context(), func(tx *store.Tx) error {
					cursor, err := tx.TelemetryCursor("s1")
					if err != nil {
						return err
					}
					return tx.AddUsage(&store.Usage{SessionID: "s1", AgentRef: "a", Route: "r", Model: "m", Requests: 1}, cursor+1)
				})
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Errorf("Update: %v", err)
		}
	}
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.UsageOf("s1")
		if err == nil && (len(list) != 1 || list[0].Requests != writers*each) {
			t.Errorf("UsageOf = %+v, want %d requests", list, writers*each)
		}
		return err
	})
}

func TestWaiterGivesUp(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	other := reopen(t, path)
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Update(context.Background(), func(*store.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	for _, waiter := range []*store.Store{s, other} { // in this process, and as if in another
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := waiter.Update(ctx, func(*store.Tx) error { return nil })
		wantError(t, "Update while another writes", err, core.KindUnavailable, "waiting for the writer")
		cancel()
	}
	view(t, other, func(tx *store.Tx) error { // readers never wait for writers
		_, err := tx.Session("s1")
		return err
	})
	close(leave)
	if err := <-done; err != nil {
		t.Errorf("the writer that was waited for: %v", err)
	}
	for _, waiter := range []*store.Store{s, other} {
		update(t, waiter, func(*store.Tx) error { return nil })
	}
}

// A writer that is killed in its transaction leaves nothing, holds up nobody,
// and the file is checked and found whole by the next one.
func TestKilledWriter(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "written\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	waiting := make(chan error)
	go func() {
		waiting <- s.Update(t.Context(), func(tx *store.Tx) error { return tx.PutSession(session("s2")) })
	}()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if err := <-waiting; err != nil {
		t.Errorf("Update after the writer's death: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.Sessions(store.SessionFilter{Strict: true})
		if err == nil && len(list) != 2 {
			t.Errorf("Sessions = %v, want s1 and s2", list)
		}
		return err
	})
}

// A fault that is armed refuses the one write it names, with all of its
// transaction, and nothing else.
func TestFaultRefusesOneKindOfWrite(t *testing.T) {
	s, path := open(t)
	seed(t, s, "s1")
	fault := testkit.Fault{Name: "full", Table: "jobs", On: "UPDATE", When: "NEW.status = 'completed'", Message: "it's full"}
	damage(t, path, fault.SQL())
	become := func(status core.JobStatus) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			j := job("j-s1", "s1")
			j.Status = status
			return all(tx.Audit(&store.Audit{At: created, Event: "to " + string(status), SessionID: "s1"}), tx.PutJob(j))
		}
	}
	update(t, s, become(core.JobRunning))
	if err := s.Update(t.Context(), become(core.JobCompleted)); err == nil || !strings.Contains(err.Error(), "it's full") {
		t.Errorf("the write that was to fail = %v, want the fault's message", err)
	}
	view(t, s, func(tx *store.Tx) error {
		j, err := tx.Job("j-s1")
		if err == nil && j.Status != core.JobRunning {
			t.Errorf("after the fault the job is %s, want running", j.Status)
		}
		return err
	})
	damage(t, path, fault.Disarm())
	update(t, s, become(core.JobCompleted))
	view(t, s, func(tx *store.Tx) error {
		list, err := tx.AuditRows("s1", 0, 10)
		var got []string
		for _, a := range list {
			got = append(got, a.Event)
		}
		if diff := cmp.Diff([]string{"to running", "to completed"}, got); diff != "" {
			t.Errorf("the audit (-want +got):\n%s", diff)
		}
		return err
	})
}
