package hostplugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// journalName is the file, beside the segments, of what must be known for ever.
const journalName = "commands.jsonl"

// entry is a line of the journal: a launch, or a step of a command.
//
//	{"launch":{"generation":1,…}}
//	{"id":"in_1","kind":"start_turn","generation":1}
//	{"id":"in_1","answer":{"delivery":"DELIVERY_APPLIED","turnId":"…"}}
type entry struct {
	Launch     json.RawMessage `json:"launch,omitempty"` // protojson of Handle
	ID         string          `json:"id,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Generation uint64          `json:"generation,omitempty"` // of the engine it was sent to
	Answer     json.RawMessage `json:"answer,omitempty"`     // protojson of CommandResponse
	Exited     uint64          `json:"exited,omitempty"`     // generation whose end is a row
	Turn       string          `json:"turn,omitempty"`       // turn whose end was received
}

// store is what the host keeps on disk for its agent.
type store struct {
	dir     string
	spool   *spool.Spool
	journal *spool.Journal

	launches map[uint64]*hostpb.Handle // generation -> handle, as found at opening
	commands map[string]*command       // command id -> command; guarded by mu
	mu       sync.Mutex

	exited    map[uint64]bool // generations whose Exited row was written; guarded by mu
	endedTurn string          // the turn whose end was received last; guarded by mu

	holeMu sync.Mutex
	lost   int   // rows that could not be written since the last one that was
	cause  error // why
}

func openStore(dir string) (*store, error) {
	sp, err := spool.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	journal, lines, err := sp.OpenJournal(journalName)
	if err != nil {
		return nil, errors.Join(err, sp.Close())
	}
	s := &store{
		dir: dir, spool: sp, journal: journal,
		launches: map[uint64]*hostpb.Handle{}, commands: map[string]*command{},
		exited: map[uint64]bool{},
	}
	for _, line := range lines {
		s.replay(line)
	}
	return s, nil
}

// replay takes in a line of an earlier process. Lines that can't be read are
// passed over: their command is then found in the thread's history or unknown.
func (s *store) replay(line json.RawMessage) {
	var e entry
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch {
	case e.Exited != 0:
		s.exited[e.Exited] = true
	case e.Turn != "":
		s.endedTurn = e.Turn
	case e.Launch != nil:
		handle := &hostpb.Handle{}
		if lenient.Unmarshal(e.Launch, handle) == nil {
			s.launches[handle.GetGeneration()] = handle
		}
	case e.Answer != nil:
		answer := &hostpb.CommandResponse{}
		if c := s.commands[e.ID]; c != nil && lenient.Unmarshal(e.Answer, answer) == nil {
			c.answer = answer
		}
	case e.ID != "":
		s.commands[e.ID] = &command{id: e.ID, kind: e.Kind, generation: e.Generation, sent: true}
	}
}

var lenient = protojson.UnmarshalOptions{DiscardUnknown: true}

func (s *store) recordLaunch(handle *hostpb.Handle) error {
	raw, err := protojson.Marshal(handle)
	if err != nil {
		return fmt.Errorf("encoding handle: %w", err)
	}
	return s.journal.Append(entry{Launch: raw})
}

// record spools a frame. A row that can't be written leaves a hole row once
// writing works again.
func (s *store) record(direction spool.Direction, message json.RawMessage, sync bool) error {
	s.holeMu.Lock()
	defer s.holeMu.Unlock()
	if s.lost > 0 {
		if _, err := s.spool.Append(spool.Hole, holeMessage("%d rows could not be written: %v", s.lost, s.cause), true); err != nil {
			s.lost++
			return err
		}
		s.lost, s.cause = 0, nil
	}
	if _, err := s.spool.Append(direction, message, sync); err != nil {
		if direction != spool.Sent { // a frame that isn't recorded isn't sent
			s.lost++
			s.cause = err
		}
		return err
	}
	return nil
}

// recordProto spools a row of the host's own.
func (s *store) recordProto(direction spool.Direction, m proto.Message) error {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding %s row: %w", direction, err)
	}
	return s.record(direction, raw, true)
}

// recordExit writes a generation's Exited row, once over all hosts. Errors leave
// a hole and are no reason to keep a dead engine.
func (s *store) recordExit(generation uint64, exit *hostpb.Exited) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exited[generation] {
		return
	}
	if s.recordProto(spool.Exited, exit) == nil {
		s.exited[generation] = true
		_ = s.journal.Append(entry{Exited: generation})
	}
}

// noteTurn remembers the turn whose end was received, for missedTurn.
func (s *store) noteTurn(state *hostpb.ThreadState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(state.GetTurns()); n > 0 && state.GetTurns()[n-1].GetId() != s.endedTurn {
		s.endedTurn = state.GetTurns()[n-1].GetId()
		_ = s.journal.Append(entry{Turn: s.endedTurn}) // lost: one hole too many later
	}
}

// missedTurn tells whether a turn runs, or has ended, whose frames were not all
// received by a host.
func (s *store) missedTurn(state *hostpb.ThreadState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(state.GetTurns())
	return state.GetActiveTurnId() != "" || n > 0 && state.GetTurns()[n-1].GetId() != s.endedTurn
}

func (s *store) hole(format string, args ...any) error {
	return s.record(spool.Hole, holeMessage(format, args...), true)
}

func holeMessage(format string, args ...any) json.RawMessage {
	text, _ := json.Marshal(map[string]string{"reason": fmt.Sprintf(format, args...)})
	return text
}

func (s *store) close() error { return errors.Join(s.journal.Close(), s.spool.Close()) }

func wireProcess(id process.Identity) *basepb.Process {
	return &basepb.Process{
		Pid: int32(id.PID), StartToken: id.StartToken, BootId: id.BootID,
		Pgid: int32(id.PGID), Sid: int32(id.SID), Command: id.Command,
	}
}

func identity(p *basepb.Process) process.Identity {
	return process.Identity{
		PID: int(p.GetPid()), StartToken: p.GetStartToken(), BootID: p.GetBootId(),
		PGID: int(p.GetPgid()), SID: int(p.GetSid()), Command: p.GetCommand(),
	}
}
