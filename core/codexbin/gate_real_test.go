package codexbin

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestTmp(t *testing.T) {
	m, err := missing("/root/.cache/mmo-scratch/cx149/schema")
	t.Log(m, err)
	d := "/root/.cache/mmo-scratch/gatecache"
	os.RemoveAll(d)
	os.MkdirAll(d, 0o700)
	for range 3 {
		t0 := time.Now()
		p, err := Gate(context.Background(), "/root/.cache/mmo-scratch/cx149/package/vendor/x86_64-unknown-linux-musl/bin/codex", &GateOptions{CacheDir: d})
		t.Log(p, err, time.Since(t0))
	}
}
