package supervisor

import (
	"context"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// prepareHomes writes the CODEX_HOME of every role of the team that has an engine
// of its own, as the gateway is reached now, and records what each was given. A
// home whose model catalogue was changed since is refused.
func (s *Supervisor) prepareHomes(ctx context.Context) error {
	rec := s.cachedSession()
	if err := verifyHomes(rec); err != nil {
		return err
	}
	settings, err := profile.LoadSettings(s.cfg.Folders.Config)
	if err != nil {
		s.log.Warn("the settings can't be read; the login is shared by a link", "err", err)
		settings = &profile.Settings{AuthLinkMode: profile.AuthShared}
	}
	homes := map[string]store.Home{}
	for _, id := range s.snap.Order {
		if !s.hasEngine(id) {
			continue
		}
		home, err := codexhome.Write(s.homeSpec(rec, id, settings))
		if err != nil {
			return err
		}
		homes[id] = homeRecord(home)
		s.setWay(id, way{model: home.Model, provider: home.ModelProvider})
	}
	return s.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
		if reflect.DeepEqual(rec.Homes, homes) {
			return errUnchanged
		}
		rec.Homes = homes
		return nil
	})
}

// hasEngine reports whether a role may run in an engine of its own: an agent
// whose route can't be used has no home, and a native one lives in its parent's.
func (s *Supervisor) hasEngine(id string) bool {
	a := s.snap.Agents[id]
	if id == s.snap.RootAgent && s.ambient() {
		return false
	}
	if id != s.snap.RootAgent && !slices.Contains(a.Backends, profile.BackendMCP) {
		return false
	}
	return s.snap.Routes[a.Route].Driver != profile.DriverCodexLogin || s.cachedSession().RouteAvailability[a.Route].Available
}

func (s *Supervisor) homeSpec(rec *store.Session, id string, settings *profile.Settings) *codexhome.Spec {
	caller := access.Caller{Role: access.RoleWorker, Agent: id}
	if id == s.snap.RootAgent {
		caller.Role = access.RoleRoot
	}
	return &codexhome.Spec{
		Dir: s.homeDir(id), Snapshot: s.snap, Agent: id, Workspace: rec.Workspace, CodexVersion: rec.Codex.Version,
		GatewayURL: s.gw.Load().baseURL(), Binary: rec.Binary.Path, SessionID: s.session,
		ControlSocket: s.cfg.Folders.ControlSocket(s.session), Tools: s.toolsOf(caller),
		Deny:    codexhome.Closed(s.cfg.Folders, s.cfg.Getenv),
		Tainted: rec.Tainted, Login: codexhome.OperatorHome(s.cfg.Getenv), CopyLogin: settings.AuthLinkMode == profile.AuthCopy,
	}
}

func homeRecord(h *codexhome.Home) store.Home {
	return store.Home{
		Dir: h.Dir, Skill: h.SkillPath, SkillSHA256: h.SkillSHA256, Catalog: h.CatalogPath, CatalogSHA256: h.CatalogSHA256,
		NativeAgentFiles: h.NativeAgentFiles, NativeAgentSHA: h.NativeAgentSHA256, DirectHeaderEnvs: h.DirectHeaderEnvs, ToolEnvs: h.ToolEnvs, ToolHTTPEnvs: h.ToolHTTPEnvs,
		CommandFlags: engineFlags("<agent run>/<generation>"), Warnings: h.Warnings,
	}
}

// verifyHomes checks that what homes tell Codex of models and of native agents
// is what was written.
func verifyHomes(rec *store.Session) error {
	for _, id := range slices.Sorted(maps.Keys(rec.Homes)) {
		h := rec.Homes[id]
		for _, err := range []error{
			codexhome.VerifyCatalog(h.Catalog, h.CatalogSHA256),
			codexhome.VerifyNatives(h.NativeAgentFiles, h.NativeAgentSHA),
		} {
			if err != nil {
				return core.Errorf(core.KindRuntime, "home validation failed for agent %s: %w", id, err)
			}
		}
	}
	return nil
}

func (s *Supervisor) homeDir(agent string) string {
	return homeDir(s.cfg.Folders.SessionDir(s.session), agent)
}

// way is how a role's thread names its model and provider.
type way struct{ model, provider string }

func (s *Supervisor) setWay(agent string, w way) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ways[agent] = w
}

func (s *Supervisor) wayOf(agent string) way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ways[agent]
}

// ignoreEnd turns the ordinary ends of a stream into no error.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}
