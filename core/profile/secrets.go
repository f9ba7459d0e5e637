package profile

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

var secretPattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,127}$`)

// reserved are variables that mean something to programs: a profile that named
// one as a secret would steer the processes that it is given to.
var reserved = []string{"PATH", "HOME", "SHELL", "USER", "LOGNAME", "TERM", "ENV", "BASH_ENV", "SHLVL", "TMPDIR", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP"}

// validSecretName reports whether a variable may hold a secret.
func validSecretName(name string) bool {
	for _, prefix := range []string{"MMO_", "CODEX_", "LD_", "DYLD_", "GIT_", "XDG_", "LC_"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return secretPattern.MatchString(name) && !slices.Contains(reserved, name)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// CheckSecret refuses a value that can't be sent in a header or set in an
// environment. It names the secret and what it is for, never the value.
func CheckSecret(name, value, use string) error {
	if strings.ContainsFunc(value, isControl) {
		return core.Errorf(core.KindValue, "%s %s holds a prohibited control character", use, name).
			WithRemedy("write its value again, on one line")
	}
	return nil
}

// What a secret is for, in the words of CheckSecret.
const (
	UseProviderHeader = "provider HTTP header environment variable"
	UseToolHTTP       = "tool MCP HTTP environment variable"
	UseTool           = "tool MCP environment variable"
	UseRoute          = "route credential"
)

// RouteSecrets names the secrets of a route, sorted.
func (s *Snapshot) RouteSecrets(id string) []string {
	r := s.Routes[id]
	names := slices.Collect(maps.Values(r.EnvHTTPHeaders))
	if r.CredentialEnv != "" {
		names = append(names, r.CredentialEnv)
	}
	return sortedSet(names)
}

// directSecrets names the secrets that an agent's engine is given because it
// reaches its route by itself.
func (s *Snapshot) directSecrets(a Agent) []string {
	if r := s.Routes[a.Route]; !r.Direct() {
		return nil
	}
	return s.RouteSecrets(a.Route)
}

// toolSecrets names the secrets of the tool servers that an agent's engine
// starts: its own and those of its native agents.
func (s *Snapshot) toolSecrets(id string) []string {
	var names []string
	for _, server := range s.engineToolServers(id) {
		t := s.ToolServers[server]
		names = append(names, t.EnvVars...)
		if t.BearerTokenEnvVar != "" {
			names = append(names, t.BearerTokenEnvVar)
		}
	}
	return sortedSet(names)
}

// AgentSecrets names the secrets that reach an agent's engine, sorted.
func (s *Snapshot) AgentSecrets(id string) []string {
	return sortedSet(append(s.directSecrets(s.Agents[id]), s.toolSecrets(id)...))
}

// SecretNames names every secret that the team needs, sorted.
func (s *Snapshot) SecretNames() []string {
	var names []string
	for id := range s.Routes {
		names = append(names, s.RouteSecrets(id)...)
	}
	for id := range s.Agents {
		names = append(names, s.AgentSecrets(id)...)
	}
	return sortedSet(names)
}

func sortedSet(words []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

// engineToolServers lists the tool servers that an agent's engine knows: those
// that it or one of its native agents is granted, sorted.
func (s *Snapshot) engineToolServers(id string) []string {
	return s.ToolServersOf(append(s.NativeAgents(id), id)...)
}

// ToolServersOf lists the tool servers that one of some agents is granted, sorted.
func (s *Snapshot) ToolServersOf(ids ...string) []string {
	var servers []string
	for _, id := range ids {
		servers = slices.AppendSeq(servers, maps.Keys(s.Agents[id].ToolServers))
	}
	return sortedSet(servers)
}

// NativeAgents lists the agents that run inside an agent's engine, in the order
// of the team: those with backend native that it may spawn and, where the team
// lets natives have natives, those that these may spawn in turn.
func (s *Snapshot) NativeAgents(id string) []string {
	found := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		for _, target := range s.Agents[id].CanSpawn {
			if s.Agents[target].Native() && !found[target] {
				found[target] = true
				if s.Coordination.NativeNestedDelegation {
					visit(target)
				}
			}
		}
	}
	visit(id)
	var list []string
	for _, id := range s.Order {
		if found[id] {
			list = append(list, id)
		}
	}
	return list
}

// MeshTargets lists the agents that an agent may spawn as jobs, in the order
// they are offered.
func (s *Snapshot) MeshTargets(id string) []string {
	var list []string
	for _, target := range s.Agents[id].CanSpawn {
		if slices.Contains(s.Agents[target].Backends, BackendMCP) {
			list = append(list, target)
		}
	}
	return list
}

// CanDelegate reports whether an agent may spawn jobs.
func (s *Snapshot) CanDelegate(id string) bool { return len(s.MeshTargets(id)) > 0 }

// Times of an agent's engine, in seconds.
const (
	minLifecycle   = 1200 // the longest wait of agents_wait
	lifecycleExtra = 30   // for what surrounds it
)

// LifecycleTimeout is how long an agent's engine may take for its start, and a
// call for its answer, in seconds: as long as its slowest tool server may take
// to start, with something over.
func (s *Snapshot) LifecycleTimeout(id string) float64 { return max(minLifecycle, s.StartTimeout(id)) }

// StartTimeout is how long the slowest tool server of an agent's engine may take
// to start, with something over, in seconds; 0 when it has none.
func (s *Snapshot) StartTimeout(id string) (timeout float64) {
	for _, server := range s.engineToolServers(id) {
		timeout = max(timeout, s.ToolServers[server].StartupTimeoutSec+lifecycleExtra)
	}
	return timeout
}

// MeshTimeout is how long a call of our own tools may take for an agent, in
// seconds: longer than the lifecycle of everyone whom it can reach.
func (s *Snapshot) MeshTimeout(id string) float64 {
	timeout := s.LifecycleTimeout(id)
	seen := map[string]bool{id: true}
	var visit func(id string)
	visit = func(id string) {
		for _, target := range s.Agents[id].CanSpawn {
			if !seen[target] {
				seen[target] = true
				timeout = max(timeout, s.LifecycleTimeout(target))
				visit(target)
			}
		}
	}
	visit(id)
	return timeout + lifecycleExtra
}
