package supervisor

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
)

// prepareHomes writes the CODEX_HOME of every role of the team, as the gateway
// is reached now.
func (s *Supervisor) prepareHomes(context.Context) error {
	rec := s.cachedSession()
	for _, id := range s.snap.Order {
		role := s.snap.Agents[id]
		caller := access.Caller{Role: access.RoleWorker, Agent: id}
		if id == s.snap.RootAgent {
			caller.Role = access.RoleRoot
		}
		_, err := codexhome.Write(&codexhome.Spec{
			Dir: s.homeDir(id), Snapshot: s.snap, Agent: id, Workspace: rec.Workspace, CodexVersion: rec.Codex.Version,
			GatewayURL: s.gw.Load().baseURL(), Binary: rec.Binary.Path, SessionID: s.session,
			ControlSocket: s.cfg.Folders.ControlSocket(s.session), Tools: tools(caller, len(role.CanSpawn) > 0),
			Deny: codexhome.Closed(s.cfg.Folders, s.cfg.Getenv),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Supervisor) homeDir(agent string) string {
	return homeDir(s.cfg.Folders.SessionDir(s.session), agent)
}

// ignoreEnd turns the ordinary ends of a stream into no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
