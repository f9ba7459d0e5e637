package hostplugin_test

import (
	"testing"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

func TestRealTurnRunsToItsEndWithItsEventsSpooled(t *testing.T) {
	p := newPlace(t, newProvider(t, runs("echo out"), says("all done")).url)
	_, client := serve(t, p.run)
	opened := start(t, p, client)
	t.Logf("echo %v", opened.GetEcho())
	t.Logf("state %v", opened.GetState())
	ev := follow(t, client, 1, nil)
	turn, err := client.StartTurn(withTime(t), &hostpb.StartTurnRequest{Fence: fenceAt(1), CommandId: "in_1", Text: "do <it> & tell"})
	must(t, "StartTurn", err, turn.GetFailure())
	if turn.GetDelivery() != basepb.Delivery_DELIVERY_APPLIED || turn.GetTurnId() == "" {
		t.Fatalf("StartTurn = %v", turn)
	}
	ev.received("turn/completed")
	read, err := client.Read(withTime(t), &hostpb.ReadRequest{IncludeItems: true})
	must(t, "Read", err, read.GetFailure())
	t.Logf("read %v", read)
	for _, e := range ev.seen {
		t.Logf("%v %s%s", e.GetPosition(), e.GetReceivedJson(), e.GetSentJson())
	}
}
