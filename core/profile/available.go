package profile

import (
	"maps"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// Faults are the kinds of fault that a session can be told to find on a route,
// so that it can be seen how a team does without it.
var Faults = []string{"rate_limit", "timeout", "usage_limit", "authentication", "server_error", "overloaded", "transport", "context_window"}

// RouteAvailability tells whether a route can be used.
type RouteAvailability struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
	Fault     string `json:"fault,omitempty"`
}

// CheckFaults refuses faults of unknown routes and of unknown kinds.
func (s *Snapshot) CheckFaults(faults map[string]string) error {
	for _, route := range slices.Sorted(maps.Keys(faults)) {
		if _, ok := s.Routes[route]; !ok {
			return core.Errorf(core.KindValue, "unknown route %q in route_faults", route).
				WithRemedy("the team's routes are %s", strings.Join(slices.Sorted(maps.Keys(s.Routes)), ", "))
		}
		if !slices.Contains(Faults, faults[route]) {
			return core.Errorf(core.KindValue, "the fault %q of route %s must be one of %s", faults[route], route, strings.Join(Faults, ", "))
		}
	}
	return nil
}

// Availability says of each route whether it can be used: has tells which
// secrets are there, login whether the operator is logged in to ChatGPT, faults
// which routes a session shall do without.
func (s *Snapshot) Availability(has func(name string) bool, login bool, faults map[string]string) map[string]RouteAvailability {
	routes := map[string]RouteAvailability{}
	for id, r := range s.Routes {
		routes[id] = s.available(r, has, login, faults[id])
	}
	return routes
}

func (s *Snapshot) available(r Route, has func(string) bool, login bool, fault string) RouteAvailability {
	if fault != "" {
		return RouteAvailability{Reason: "injected route fault: " + fault, Fault: fault}
	}
	var missing []string
	for _, name := range s.RouteSecrets(r.ID) {
		if !has(name) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return RouteAvailability{Reason: "missing credential " + strings.Join(missing, ", ")}
	case r.Driver == DriverCodexLogin && !login:
		return RouteAvailability{Reason: "missing ChatGPT login: run `codex login`"}
	case strings.HasPrefix(r.Driver, DriverPlugin):
		return RouteAvailability{Reason: "no plugin serves driver " + r.Driver}
	}
	return RouteAvailability{Available: true}
}
