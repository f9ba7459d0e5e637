package core

import (
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// idPattern is what every id of ours looks like: safe as a file name, as part
// of a socket path and in a shell.
var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,95}$`)

// ValidID reports whether s may be used as the id of a session, run, job or
// agent run, and therefore as a folder name.
func ValidID(s string) bool { return idPattern.MatchString(s) }

// NewSessionID returns an id of the form YYYYMMDD-HHMMSS-<profile>-<8 hex>.
// Random bytes come from random, which must not fail.
func NewSessionID(now time.Time, profile string, random io.Reader) string {
	return stamped(now, profile, random)
}

// NewJobID returns an id of the form YYYYMMDD-HHMMSS-<agent>-<8 hex>.
func NewJobID(now time.Time, agent string, random io.Reader) string {
	return stamped(now, agent, random)
}

// NewRunID returns the id of a session's one run: run-000001-<8 hex>.
func NewRunID(random io.Reader) string { return "run-000001-" + hexBytes(random, 4) }

// NewAgentRef returns the public handle of an agent run: ar_<16 hex>.
func NewAgentRef(random io.Reader) string { return "ar_" + hexBytes(random, 8) }

// NewBatchID returns the id that jobs admitted together share: batch-<8 hex>.
func NewBatchID(random io.Reader) string { return "batch-" + hexBytes(random, 4) }

// NewInputID returns the id that names one input to a thread for ever:
// in-<16 hex>. It is sent to the engine as the message's client id.
func NewInputID(random io.Reader) string { return "in-" + hexBytes(random, 8) }

func stamped(now time.Time, name string, random io.Reader) string {
	return fmt.Sprintf("%s-%s-%s", now.UTC().Format("20060102-150405"), slug(name), hexBytes(random, 4))
}

// slug reduces a name to the alphabet of ids, at most 40 characters.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 40 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "x"
}

func hexBytes(random io.Reader, n int) string {
	buf := make([]byte, n)
	if _, err := io.ReadFull(random, buf); err != nil {
		panic("core: random source failed: " + err.Error()) // the process can't mint ids without it
	}
	return hex.EncodeToString(buf)
}
