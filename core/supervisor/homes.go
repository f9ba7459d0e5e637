package supervisor

import (
	"context"
	"errors"
	"io"
	"path/filepath"

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
			ControlSocket: s.cfg.Folders.ControlSocket(s.session), Tools: tools(caller, len(role.CanSpawn) > 0), Deny: s.denied(),
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

// denied lists what no command of a model may read: our own state, which holds
// capabilities, homes and evidence, our configuration with its credentials, and
// the operator's own Codex login.
func (s *Supervisor) denied() []string {
	list := []string{s.cfg.Folders.Config}
	for _, name := range []string{"sessions", "jobs", "gateways", "snapshots", "state.db", "codex"} {
		list = append(list, filepath.Join(s.cfg.Folders.State, name))
	}
	list = append(list, s.cfg.Folders.Runtime)
	codex := s.cfg.Getenv("CODEX_HOME")
	if codex == "" && s.cfg.Getenv("HOME") != "" {
		codex = filepath.Join(s.cfg.Getenv("HOME"), ".codex")
	}
	if codex != "" {
		list = append(list, codex)
	}
	return list
}

// ignoreEnd turns the ordinary ends of a stream into no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
