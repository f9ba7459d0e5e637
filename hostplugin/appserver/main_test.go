package appserver_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver/appservertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 10 * time.Second

func withTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// listen makes a scripted peer and returns the path of its socket.
func listen(t *testing.T) (*appservertest.Server, string) {
	t.Helper()
	path := filepath.Join(testkit.PrivateDir(t), "s.sock")
	return appservertest.Listen(t, path), path
}

// dialed is the outcome of a Dial that runs beside the peer.
type dialed struct {
	client *appserver.Client
	err    error
}

// dial connects a client while the peer answers with the given head.
func dial(t *testing.T, answer appservertest.Answer, opts *appserver.Options) (*appserver.Client, *appservertest.Conn, error) {
	t.Helper()
	server, path := listen(t)
	out := make(chan dialed, 1)
	go func() {
		client, err := appserver.Dial(withTime(t), path, opts)
		out <- dialed{client, err}
	}()
	conn := server.Accept(answer)
	d := <-out
	if d.client != nil {
		t.Cleanup(d.client.Close)
	}
	return d.client, conn, d.err
}

// connected is dial with a correct handshake.
func connected(t *testing.T, opts *appserver.Options) (*appserver.Client, *appservertest.Conn) {
	t.Helper()
	client, conn, err := dial(t, appservertest.Answer{}, opts)
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	return client, conn
}

// ended waits for the end of the connection and returns its reason.
func ended(t *testing.T, client *appserver.Client) error {
	t.Helper()
	select {
	case <-client.Done():
		return client.Err()
	case <-time.After(patience):
		t.Fatal("the connection did not end")
		return nil
	}
}
