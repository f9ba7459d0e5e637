package hostplugin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// wireThread is a thread as the app-server tells it.
func wireThread(id, parent, role, status string) string {
	return fmt.Sprintf(`{"id":%q,"parentThreadId":%q,"agentRole":%q,"agentNickname":"Nick","status":{"type":%q}}`, id, parent, role, status)
}

// lists answers the next listing of a thread's children with a page.
func (s *scripted) lists(parent, next string, threads ...string) {
	s.t.Helper()
	request := s.conn.Expect("thread/list")
	if !strings.Contains(string(request.Params), fmt.Sprintf(`"parentThreadId":%q`, parent)) {
		s.t.Fatalf("the host lists %s, want the children of %s", request.Params, parent)
	}
	s.conn.Reply(request, fmt.Sprintf(`{"data":[%s],"nextCursor":%s}`, strings.Join(threads, ","), next))
}

// TestNatives: native agents are found by their parents, page by page, and those
// that the list leaves out by their own threads; what leads to no thread of ours is
// none.
//
// Spec: A032
func TestNatives(t *testing.T) {
	t.Parallel()
	s := opened(t, "")
	natives := async(func(ctx context.Context) (*hostpb.NativesResponse, error) {
		return s.client.Natives(ctx, &hostpb.NativesRequest{ThreadIds: []string{"th_a", "th_hidden", "th_foreign", "th_gone"}})
	})
	s.lists(scriptedThread, `"more"`, wireThread("th_a", scriptedThread, "scout", "active"), wireThread("th_other", "th_else", "scout", "idle"))
	s.lists(scriptedThread, "null", wireThread("th_b", scriptedThread, "guide", "idle"))
	s.lists("th_a", "null")
	s.lists("th_b", "null", wireThread("th_c", "th_b", "scout", "idle"))
	s.lists("th_c", "null")
	reads := func(id, thread string) {
		t.Helper()
		request := s.conn.Expect("thread/read")
		if !strings.Contains(string(request.Params), fmt.Sprintf(`"threadId":%q`, id)) {
			t.Fatalf("the host reads %s, want %s", request.Params, id)
		}
		if thread == "" {
			s.conn.Refuse(request, -32600, "thread not found")
			return
		}
		s.conn.Reply(request, `{"thread":`+thread+`}`)
	}
	reads("th_hidden", wireThread("th_hidden", "th_between", "scout", "notLoaded"))
	reads("th_between", wireThread("th_between", "th_c", "", "idle"))
	reads("th_foreign", wireThread("th_foreign", "th_stranger", "scout", "idle"))
	reads("th_stranger", `{"id":"th_stranger","parentThreadId":null,"status":{"type":"idle"}}`)
	reads("th_gone", "")
	native := func(id, parent, role, status string) *hostpb.Native {
		return &hostpb.Native{ThreadId: id, ParentThreadId: parent, Role: role, Nickname: "Nick", Status: status}
	}
	want := &hostpb.NativesResponse{Natives: []*hostpb.Native{
		native("th_a", scriptedThread, "scout", "active"), native("th_b", scriptedThread, "guide", "idle"), native("th_c", "th_b", "scout", "idle"),
		native("th_between", "th_c", "", "idle"), native("th_hidden", "th_between", "scout", "notLoaded"),
	}}
	if diff := cmp.Diff(want, natives(t), protocmp.Transform()); diff != "" {
		t.Errorf("native agents (-want +got):\n%s", diff)
	}
}

// TestEndNative: only a thread below the open one is archived.
//
// Spec: A031
func TestEndNative(t *testing.T) {
	t.Parallel()
	s := opened(t, "")
	end := func(command, thread string) func(*testing.T) *hostpb.CommandResponse {
		return async(func(ctx context.Context) (*hostpb.CommandResponse, error) {
			return s.client.EndNative(ctx, &hostpb.EndNativeRequest{Fence: fenceAt(1), CommandId: command, ThreadId: thread})
		})
	}
	refused := func(answer *hostpb.CommandResponse) {
		t.Helper()
		if answer.GetDelivery() != basepb.Delivery_DELIVERY_REJECTED || answer.GetFailure().GetKind() != "not_native" {
			t.Errorf("EndNative() = %v, want it refused as not_native", answer)
		}
	}
	refused(end("c1", scriptedThread)(t))
	refused(end("c2", "")(t))
	foreign := end("c3", "th_foreign")
	s.conn.Reply(s.conn.Expect("thread/read"), `{"thread":{"id":"th_foreign","parentThreadId":null}}`)
	refused(foreign(t))

	own := end("c4", "th_a")
	s.conn.Reply(s.conn.Expect("thread/read"), `{"thread":`+wireThread("th_a", scriptedThread, "scout", "active")+`}`)
	archive := s.conn.Expect("thread/archive")
	if diff := cmp.Diff(`{"threadId":"th_a"}`, string(archive.Params)); diff != "" {
		t.Errorf("thread/archive (-want +got):\n%s", diff)
	}
	s.conn.Reply(archive, `{}`)
	if answer := own(t); answer.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED {
		t.Errorf("EndNative() = %v, want it applied", answer)
	}
	if answer := end("c4", "th_a")(t); !answer.GetRepeatedCommand() {
		t.Errorf("the same command again = %v, want its first answer", answer)
	}
}
