package codexhome

import (
	"maps"
	"slices"

	"github.com/codex-mmo/codex-mmo/core/profile"
)

// Secrets returns the secrets that an agent's engine is given in its
// environment, by name: those of a route that it reaches by itself, and those of
// the tool servers that it starts; those of its native agents too, unless the
// session is tainted and has none. A secret that is not there is left out, which
// makes its route or server unavailable and nothing else. A value that can't be
// sent is refused.
func Secrets(snap *profile.Snapshot, agent string, tainted bool, lookup func(name string) (string, bool)) (map[string]string, error) {
	set := map[string]string{}
	give := func(name, use string) error {
		value, ok := lookup(name)
		if !ok {
			return nil
		}
		set[name] = value
		return profile.CheckSecret(name, value, use)
	}
	if route := snap.Routes[snap.Agents[agent].Route]; route.Direct() {
		for _, name := range slices.Sorted(maps.Values(route.EnvHTTPHeaders)) {
			if err := give(name, profile.UseProviderHeader); err != nil {
				return nil, err
			}
		}
		if name := route.CredentialEnv; name != "" {
			if err := give(name, profile.UseRoute); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range toolServers(snap, agent, tainted) {
		server := snap.ToolServers[id]
		for _, name := range server.EnvVars {
			if err := give(name, profile.UseTool); err != nil {
				return nil, err
			}
		}
		if name := server.BearerTokenEnvVar; name != "" {
			if err := give(name, profile.UseToolHTTP); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}
