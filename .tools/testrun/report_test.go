package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	const events = `
{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0.5}
{"Action":"output","Package":"m/a","Test":"TestBad/row","Output":"loud\n"}
{"Action":"fail","Package":"m/a","Test":"TestBad/row","Elapsed":0}
{"Action":"fail","Package":"m/a","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"m/a","Test":"TestSkipped","Output":"no tmux\n"}
{"Action":"skip","Package":"m/a","Test":"TestSkipped","Elapsed":0}
{"Action":"fail","Package":"m/a","Elapsed":1.5}
{"ImportPath":"m/b","Action":"build-output","Output":"b.go:1: no\n"}
{"Action":"fail","Package":"m/b","Elapsed":0}
{"Action":"skip","Package":"m/none","Elapsed":0}
`
	const want = `loud
no tmux
fail      1.5s  m/a
b.go:1: no
fail      0.0s  m/b
skip      0.0s  m/none

    time  passed  failed  suite
    1.5s       1       2  m/a
    0.0s       0       1  m/b
3s of a budget of 1m0s, builds included
1 skipped, see above: a missing prerequisite should fail instead
1 passed, 3 failed
`
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.summary(3*time.Second, time.Minute)
	if got := out.String(); got != want {
		t.Errorf("report:\n%s\nwant:\n%s", got, want)
	}
}

func TestReportRefusesGarbage(t *testing.T) {
	if err := newReport(&strings.Builder{}).read(strings.NewReader("FAIL m/a")); err == nil {
		t.Error("read(garbage) = nil, want an error")
	}
}
