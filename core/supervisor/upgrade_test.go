package supervisor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// A session at rest moves to the running build, once and on record; one at work
// keeps its own, and so does one whose supervisor is there.
func TestUpgradeRuntime(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for status, ok := range map[core.SessionStatus]bool{core.SessionSuspended: true, core.SessionRunning: false} {
		t.Run(string(status), func(t *testing.T) {
			r := newRig(t, status)
			lock, err := takeLock(filepath.Join(r.cfg.Folders.SessionDir("s1"), "supervisor.lock"))
			if err != nil || lock == nil {
				t.Fatalf("takeLock = %v, %v", lock, err)
			}
			if err := UpgradeRuntime(t.Context(), r.store, r.cfg.Folders, "s1", "v2", now); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "has a supervisor") {
				t.Errorf("with a supervisor: %v", err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				err = UpgradeRuntime(t.Context(), r.store, r.cfg.Folders, "s1", "v2", now)
				if (err == nil) != ok {
					t.Errorf("UpgradeRuntime = %v, want it done: %t", err, ok)
				}
			}
			var rec *store.Session
			upgrades := 0
			err = r.store.View(t.Context(), func(tx *store.Tx) error {
				if rec, err = tx.Session("s1"); err != nil {
					return err
				}
				rows, err := tx.AuditRows("s1", 0, 100)
				for _, row := range rows {
					if row.Event == "runtime_upgraded" {
						upgrades++
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			digest, err := thisRuntime().digest()
			if err != nil {
				t.Fatal(err)
			}
			if moved := rec.Binary.SHA256 == digest && rec.Binary.Build == "v2"; moved != ok || upgrades != map[bool]int{true: 1, false: 0}[ok] {
				t.Errorf("the session runs on %+v, with %d rows of an upgrade", rec.Binary, upgrades)
			}
		})
	}
}
