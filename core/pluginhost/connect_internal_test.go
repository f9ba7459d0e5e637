package pluginhost

import (
	"errors"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/process"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// Each part of what a plugin says of itself must fit what is expected.
func TestCheckDescription(t *testing.T) {
	id := process.Identity{PID: 42, StartToken: "1000", BootID: "boot"}
	tests := []struct {
		name string
		edit func(*basepb.DescribeResponse)
		want error
	}{
		{"as expected", func(*basepb.DescribeResponse) {}, nil},
		{"another pid", func(d *basepb.DescribeResponse) { d.Process.Pid = 43 }, ErrRefused},
		{"another start", func(d *basepb.DescribeResponse) { d.Process.StartToken = "1001" }, ErrRefused},
		{"another boot", func(d *basepb.DescribeResponse) { d.Process.BootId = "reboot" }, ErrRefused},
		{"no process", func(d *basepb.DescribeResponse) { d.Process = nil }, ErrRefused},
		// An SDK that can't read its start time leaves it out.
		{"no start and boot", func(d *basepb.DescribeResponse) { d.Process.StartToken, d.Process.BootId = "", "" }, nil},
		{"another kind", func(d *basepb.DescribeResponse) { d.Kinds = []string{"gateway"} }, ErrRefused},
		{"no kind", func(d *basepb.DescribeResponse) { d.Kinds = nil }, ErrRefused},
		{"a further version", func(d *basepb.DescribeResponse) { d.ProtocolVersions = []uint32{1, 2} }, nil},
		{"another version", func(d *basepb.DescribeResponse) { d.ProtocolVersions = []uint32{2} }, ErrRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &basepb.DescribeResponse{
				Process: &basepb.Process{Pid: 42, StartToken: "1000", BootId: "boot"},
				Kinds:   []string{"host"}, ProtocolVersions: []uint32{1},
			}
			tt.edit(d)
			if err := checkDescription(d, "host", id, 1); !errors.Is(err, tt.want) {
				t.Errorf("checkDescription(%v) = %v, want %v", d, err, tt.want)
			}
		})
	}
}
