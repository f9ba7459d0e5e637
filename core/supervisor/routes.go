package supervisor

import (
	"context"
	"maps"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// availability says which of a team's routes can be used, by what is there of
// credentials and by the faults that the session was given.
func availability(snap *profile.Snapshot, keys *profile.Credentials, getenv func(string) string, faults map[string]string) map[string]store.Availability {
	routes := map[string]store.Availability{}
	for id, r := range snap.Availability(keys.Has, codexhome.LoggedIn(getenv), faults) {
		routes[id] = store.Availability{Available: r.Available, Reason: r.Reason, Fault: r.Fault}
	}
	return routes
}

// loadCredentials reads what the team's routes and tools need: from the
// keeper's pipe, else from credentials.env. A file that can't be read takes
// its routes out of use and nothing else: what works goes on.
func (s *Supervisor) loadCredentials() {
	fromKeeper := func(name string) string { return s.cfg.Secrets[name] }
	keys, err := profile.LoadCredentials(s.cfg.Folders.Config, fromKeeper)
	if err != nil {
		s.log.Error("the credentials can't be read; only those of the starting command count", "err", err)
		keys = profile.EnvCredentials(fromKeeper)
	}
	s.keys = keys
}

// noteRoutes records which routes can be used now; refused are those that the
// gateway can't serve, with its reason.
func (s *Supervisor) noteRoutes(ctx context.Context, refused map[string]string) error {
	return s.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
		now := availability(s.snap, s.keys, s.cfg.Getenv, rec.RouteFaults)
		for id, why := range refused {
			if now[id].Available {
				now[id] = store.Availability{Reason: "the gateway can't use it: " + why}
			}
		}
		if maps.Equal(rec.RouteAvailability, now) {
			return errUnchanged
		}
		rec.RouteAvailability = now
		return nil
	})
}

// routes lists what the gateway serves for the session, and the secrets that
// these routes need. Routes that Codex reaches by itself are not among them.
func (g *gatewayLink) routes() ([]*gatewaypb.Route, []*basepb.Secret, error) {
	snap := g.sup.snap
	var routes []*gatewaypb.Route
	values := map[string]string{} // name -> secret
	for _, id := range slices.Sorted(maps.Keys(snap.Routes)) {
		r := snap.Routes[id]
		if r.Direct() {
			continue
		}
		options, err := snap.RouteOptions(id)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range snap.RouteSecrets(id) {
			if value, ok := g.sup.keys.Lookup(name); ok {
				values[name] = value
			}
		}
		routes = append(routes, &gatewaypb.Route{
			Id: r.ID, Driver: r.Driver, BaseUrl: r.BaseURL, SecretName: r.CredentialEnv, OptionsJson: options, Models: modelsOf(snap, id),
		})
	}
	var secrets []*basepb.Secret
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secrets = append(secrets, &basepb.Secret{Name: name, Value: []byte(values[name])})
	}
	return routes, secrets, nil
}

func modelsOf(snap *profile.Snapshot, route string) (models []*gatewaypb.RouteModel) {
	for _, key := range slices.Sorted(maps.Keys(snap.Models)) {
		if m := snap.Models[key]; m.Route == route {
			models = append(models, &gatewaypb.RouteModel{Key: m.Key, UpstreamId: m.UpstreamID, Modalities: m.Modalities})
		}
	}
	return models
}

// routeOf returns the route that an agent's model is reached by.
func (s *Supervisor) routeOf(rec *store.AgentRun) (profile.Route, error) {
	r, ok := s.snap.Routes[rec.Route]
	if !ok {
		return profile.Route{}, core.Errorf(core.KindValue, "profile %s has no route %q", s.snap.ProfileID, rec.Route)
	}
	return r, nil
}
