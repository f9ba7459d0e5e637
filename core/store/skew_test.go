package store

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// TestRowsOfEarlierBuilds: records that an earlier build of this state package
// wrote are still read: a key that was ever written is never dropped. The rows
// are those of a demo, with the machine's own names taken out.
func TestRowsOfEarlierBuilds(t *testing.T) {
	f, err := os.Open("testdata/rows-1.0.0.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := map[string]func([]byte) error{
		"sessions": into[Session], "runs": into[Run], "jobs": into[Job], "agent_runs": into[AgentRun], "inputs": into[Input],
		"capabilities": into[Capability], "gateways": into[Gateway], "launches": into[Launch],
	}
	var seen []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			Table   string          `json:"table"`
			Payload json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if err := read[row.Table](row.Payload); err != nil {
			t.Errorf("a row of %s can't be read: %v", row.Table, err)
		}
		seen = append(seen, row.Table)
	}
	for table := range read {
		if !slices.Contains(seen, table) {
			t.Errorf("there is no row of %s", table)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func into[T any](payload []byte) error {
	return strictjson.Unmarshal(payload, new(T), nil)
}
