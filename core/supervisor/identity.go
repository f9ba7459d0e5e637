package supervisor

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// The same identity has three shapes: of a live process, of a record, and on
// the plugins' wire.

func recordOf(id process.Identity) store.Process {
	return store.Process{PID: id.PID, StartToken: id.StartToken, BootID: id.BootID, PGID: id.PGID, SID: id.SID, Command: id.Command}
}

func identityOf(p store.Process) process.Identity {
	return process.Identity{PID: p.PID, StartToken: p.StartToken, BootID: p.BootID, PGID: p.PGID, SID: p.SID, Command: p.Command}
}

func fromProto(p *basepb.Process) process.Identity {
	return process.Identity{
		PID: int(p.GetPid()), StartToken: p.GetStartToken(), BootID: p.GetBootId(),
		PGID: int(p.GetPgid()), SID: int(p.GetSid()), Command: p.GetCommand(),
	}
}

func toProto(p store.Process) *basepb.Process {
	return &basepb.Process{
		Pid: int32(p.PID), StartToken: p.StartToken, BootId: p.BootID,
		Pgid: int32(p.PGID), Sid: int32(p.SID), Command: p.Command,
	}
}

func recordsOf(list []process.Identity) []store.Process {
	var records []store.Process
	for _, id := range list {
		records = append(records, recordOf(id))
	}
	return records
}

// describe names processes for people.
func describe(list []store.Process) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, fmt.Sprintf("%d %s", p.PID, p.Command))
	}
	return strings.Join(texts, ", ")
}

// newInstance returns 8 hex characters: short enough for socket paths.
func newInstance(random io.Reader) string {
	buf := make([]byte, 4)
	if _, err := io.ReadFull(random, buf); err != nil {
		panic("supervisor: random source failed: " + err.Error()) // nothing can be named without it
	}
	return hex.EncodeToString(buf)
}
