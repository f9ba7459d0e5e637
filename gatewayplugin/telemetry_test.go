package gatewayplugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestTelemetryGoesOnAfterRestart: the next gateway cuts a torn row, keeps the
// whole ones, and goes on with their numbers.
func TestTelemetryGoesOnAfterRestart(t *testing.T) {
	first := newRig(t, nil, nil)
	first.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	first.issue("s1", "bearer", nil)
	first.ask("bearer", "m")
	first.ask("bearer", "m")
	first.row("s1", 1)
	first.drain()
	path := filepath.Join(first.stateDir, "telemetry-s1.jsonl")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"seq":"3","agent_ref":"to`); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Chmod(0o644), file.Close()); err != nil {
		t.Fatal(err)
	}
	second := newRig(t, nil, &gatewaypb.StartRequest{StateDir: first.stateDir})
	if rows := second.rows("s1", 0); len(rows) != 2 || rows[1].GetSeq() != 2 {
		t.Fatalf("rows %v", rows)
	}
	second.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	second.issue("s1", "bearer", nil)
	second.ask("bearer", "m")
	if row := second.row("s1", 2); row.GetSeq() != 3 || row.GetOutcome() != "completed" {
		t.Errorf("row %v", row)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	dir, err := os.Stat(first.stateDir)
	if err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("folder's mode %v, %v", dir.Mode(), err)
	}
}

// TestTelemetryRefusesLinks: a planted link or pipe is not written through.
func TestTelemetryRefusesLinks(t *testing.T) {
	r := newRig(t, nil, nil)
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, filepath.Join(r.stateDir, "telemetry-s1.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.gateway.Models(r.ctx, &gatewaypb.ModelsRequest{Tenant: fence("s1", 1)}); status.Code(err) != codes.Unavailable {
		t.Errorf("a link: %v", err)
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("the link's target was made: %v", err)
	}
}

// TestRowBeforeTheEnd: when Codex sees a turn's end, its row is in the file,
// so that a kill of the gateway at any time loses no finished answer's usage.
func TestRowBeforeTheEnd(t *testing.T) {
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	r.issue("s1", "bearer", nil)
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen strings.Builder
	buf := make([]byte, 1)
	for !strings.Contains(seen.String(), "event: response.completed") {
		if _, err := resp.Body.Read(buf); err != nil {
			t.Fatal(err)
		}
		seen.Write(buf)
	}
	raw, err := os.ReadFile(filepath.Join(r.stateDir, "telemetry-s1.jsonl"))
	if err != nil || !strings.Contains(string(raw), `"outcome":"completed"`) || !strings.HasSuffix(string(raw), "\n") {
		t.Errorf("the file holds %q, %v", raw, err)
	}
}

// TestTelemetryHasOneWriter: a second gateway on the same folder is refused
// while the first one lives.
func TestTelemetryHasOneWriter(t *testing.T) {
	first := newRig(t, nil, nil)
	first.apply("s1", nil)
	second := newRig(t, nil, &gatewaypb.StartRequest{StateDir: first.stateDir})
	_, err := second.gateway.Models(second.ctx, &gatewaypb.ModelsRequest{Tenant: fence("s1", 1)})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "another gateway writes it") {
		t.Errorf("the second gateway: %v", err)
	}
}

// TestTelemetryOfDamagedFile: a row in the middle that can't be read is named
// and the file is left as it is.
func TestTelemetryOfDamagedFile(t *testing.T) {
	r := newRig(t, nil, nil)
	path := filepath.Join(r.stateDir, "telemetry-s1.jsonl")
	const damaged = `{"seq":"1"}` + "\n" + `{"seq":` + "\n" + `{"seq":"3"}` + "\n"
	if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.gateway.Models(r.ctx, &gatewaypb.ModelsRequest{Tenant: fence("s1", 1)})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the row at byte 12 can't be read") {
		t.Errorf("Models: %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != damaged {
		t.Errorf("the file was changed to %q, %v", raw, err)
	}
}
