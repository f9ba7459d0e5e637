package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/dialect"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

func joinKey(path []string) string { return strings.Join(path, ".") }

func baseName(file string) string { return path.Base(file) }

// badEntry records a problem with the catalogue.
func (c *compiler) badEntry(wrong, right string, path ...string) {
	c.report(&c.problems, c.catalog, wrong, right, path)
}

// model takes an agent's model, and its route, from the catalogue into the
// snapshot.
func (c *compiler) model(agent, key string) Model {
	if m, ok := c.out.Models[key]; ok || key == "" {
		return m
	}
	m, ok := c.models.Models[key]
	if !ok {
		c.bad("is "+quote(key)+", which is not in the catalogue", c.modelHint(key), "agents", agent, "model")
		return Model{}
	}
	at := func(name string) []string { return []string{"models", key, name} }
	if !core.ValidID(key) {
		c.badEntry("can't be the key of a model", "must be of a-z, 0-9, - and _", "models", key)
	}
	if len(m.ReasoningLevels) > 0 && !slices.Contains(m.ReasoningLevels, m.DefaultReasoning) {
		c.badEntry("is "+quote(m.DefaultReasoning), oneOf(m.ReasoningLevels), at("default_reasoning")...)
	}
	out := Model{
		Key: key, Route: m.Route, UpstreamID: m.UpstreamID, Maker: m.Maker, Modalities: list(m.Modalities),
		ReasoningLevels: list(m.ReasoningLevels), DefaultReasoning: m.DefaultReasoning, ContextWindow: m.ContextWindow,
		BaseInstructions: m.BaseInstructions, Units: or(m.Units, 1),
	}
	if out.BaseInstructions == "" {
		out.BaseInstructions = c.baseInstructions()
	}
	if p := m.Price; p != nil {
		out.Price = &Price{Input: p.Input, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Output: p.Output, AsOf: p.AsOf}
	}
	c.route(key, m.Route)
	c.out.Models[key] = out
	return out
}

// baseInstructions is the system prompt of models that name none.
func (c *compiler) baseInstructions() string {
	if c.in.Bundled != nil {
		if text, err := readFS(c.in.Bundled, "base_instructions.md", "bundled:base_instructions.md"); err == nil {
			return string(text)
		}
	}
	return "You are a coding agent. Follow AGENTS.md."
}

// drivers are the built-in ones and the wires that each can speak.
var drivers = map[string][]string{
	DriverOffline:     {WireResponses, WireChat, WireAnthropic},
	DriverCodexLogin:  {WireResponses},
	DriverCodexCustom: {WireResponses},
	DriverResponses:   {WireResponses},
	DriverChat:        {WireChat},
	DriverAnthropic:   {WireAnthropic},
}

func (c *compiler) route(model, id string) {
	if _, ok := c.out.Routes[id]; ok || id == "" {
		return
	}
	r, ok := c.models.Routes[id]
	if !ok {
		c.badEntry("is "+quote(id)+", which is not in the catalogue", hint(id, c.catalog.at("routes").sorted(), "the catalogue has"), "models", model, "route")
		return
	}
	at := func(keys ...string) []string { return append([]string{"routes", id}, keys...) }
	if !core.ValidID(id) {
		c.badEntry("can't be the id of a route", "must be of a-z, 0-9, - and _", at()...)
	}
	out := Route{
		ID: id, Name: r.Name, Driver: r.Driver, APIOperator: r.APIOperator, AccessProduct: r.AccessProduct, WireProtocol: r.WireProtocol,
		BillingMode: r.BillingMode, BaseURL: r.BaseURL, CredentialEnv: r.CredentialEnv, Resource: r.Resource,
		TransportModalities: list(r.TransportModalities), PreservesToolMedia: r.PreservesToolMedia, ToolResultModalities: list(r.ToolResultModalities),
		Headers: r.Headers, EnvHTTPHeaders: r.EnvHTTPHeaders, SessionHeader: r.SessionHeader, Retries: r.Retries,
	}
	out.Body, out.Quirks = c.object(r.Body, at("body")), c.object(r.Quirks, at("quirks"))
	c.driver(&out, at)
	c.endpoint(&out, at)
	c.headers(&out, at)
	c.quirks(&out, r.Quirks, at)
	switch {
	case r.Driver == DriverOffline && r.Script == "":
		c.badEntry("is missing", "driver offline plays a script of the profile", at("script")...)
	case r.Driver != DriverOffline && r.Script != "":
		c.badEntry("goes with driver offline", "leave it out", at("script")...)
	case r.Script != "":
		out.Script = c.script(r.Script, at("script"))
	}
	if r.Resource != "" {
		c.resource(id, r.Resource)
	}
	c.out.Routes[id] = out
}

// object turns a table into JSON; nil without one.
func (c *compiler) object(table map[string]any, path []string) json.RawMessage {
	if table == nil {
		return nil
	}
	raw, err := strictjson.Marshal(table)
	if err != nil {
		c.badEntry("can't be written as JSON: "+err.Error(), "", path...)
	}
	return raw
}

func (c *compiler) driver(r *Route, at func(...string) []string) {
	if r.Driver == "" || r.WireProtocol == "" {
		return // told already
	}
	if name, ok := strings.CutPrefix(r.Driver, DriverPlugin); ok {
		plugin, driver, ok := strings.Cut(name, "/")
		if !ok || !core.ValidID(plugin) || !core.ValidID(driver) {
			c.badEntry("is "+quote(r.Driver), "a plugin's driver is plugin:<plugin>/<driver>", at("driver")...)
		}
		return
	}
	wires, ok := drivers[r.Driver]
	if !ok {
		c.badEntry("is "+quote(r.Driver), oneOf(slices.Sorted(maps.Keys(drivers)))+", or plugin:<plugin>/<driver>", at("driver")...)
		return
	}
	if !slices.Contains(wires, r.WireProtocol) {
		c.badEntry("is "+quote(r.WireProtocol), fmt.Sprintf("driver %s speaks %s", r.Driver, strings.Join(wires, ", ")), at("wire_protocol")...)
	}
	if r.Direct() {
		c.gatewayOnly(r, at)
	}
	if (r.Driver == DriverOffline) != (r.BillingMode == BillingScripted) {
		c.badEntry("is "+quote(r.BillingMode), "scripted goes with driver offline, and with no other", at("billing_mode")...)
	}
}

// gatewayOnly refuses what a route without a gateway can't do.
func (c *compiler) gatewayOnly(r *Route, at func(...string) []string) {
	for key, said := range map[string]bool{"session_header": r.SessionHeader != "", "body": r.Body != nil, "retries": r.Retries != nil, "quirks": r.Quirks != nil} {
		if said {
			c.badEntry("is done by the gateway, which driver "+r.Driver+" does not use", "leave it out", at(key)...)
		}
	}
}

// endpoint checks where a route leads to: keys go there and nowhere else.
func (c *compiler) endpoint(r *Route, at func(...string) []string) {
	needed := r.Driver != DriverOffline && r.Driver != DriverCodexLogin && !strings.HasPrefix(r.Driver, DriverPlugin)
	if r.BaseURL == "" {
		if needed {
			c.badEntry("is missing", "driver "+r.Driver+" needs the URL of its provider", at("base_url")...)
		}
		return
	}
	u, err := url.Parse(r.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		c.badEntry("is "+quote(r.BaseURL), "must be an https URL", at("base_url")...)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		c.badEntry("holds more than scheme, host and path", "put keys into credentials.env", at("base_url")...)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		c.badEntry("is not encrypted", "use https; http is for this machine alone", at("base_url")...)
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// headers checks a route's headers and the names of its secrets.
func (c *compiler) headers(r *Route, at func(...string) []string) {
	fault := func(wrong, right string, keys ...string) {
		if wrong != "" {
			c.badEntry(wrong, right, at(keys...)...)
		}
	}
	for name, value := range r.Headers {
		wrong, right := dialect.HeaderFault(name, value)
		fault(wrong, right, "headers", name)
	}
	for name, env := range r.EnvHTTPHeaders {
		wrong, right := dialect.SecretHeaderFault(name, r.CredentialEnv != "")
		fault(wrong, right, "env_http_headers", name)
		c.secretName(env, c.catalog, at("env_http_headers", name))
	}
	if r.SessionHeader != "" {
		wrong, right := dialect.SessionHeaderFault(r.SessionHeader)
		fault(wrong, right, "session_header")
	}
	if r.CredentialEnv != "" {
		c.secretName(r.CredentialEnv, c.catalog, at("credential_env"))
	}
}

// quirks checks those of a route that the built-in gateway serves; a plugin's
// are its own.
func (c *compiler) quirks(r *Route, quirks map[string]any, at func(...string) []string) {
	if strings.HasPrefix(r.Driver, DriverPlugin) {
		return
	}
	for name, value := range quirks {
		wrong, right := dialect.QuirkFault(name, value)
		if near := nearest(name, dialect.QuirkNames()); wrong != "" && near != "" && near != name {
			right = "did you mean " + near + "?"
		}
		if wrong != "" {
			c.badEntry(wrong, right, at("quirks", name)...)
		}
	}
}

func (c *compiler) secretName(name string, t *tree, path []string) {
	if !validSecretName(name) {
		c.report(&c.problems, t, "is "+quote(name), "must be the name of a variable: A-Z, 0-9 and _, and none that means something to programs, like PATH or all that begin with MMO_, CODEX_, GIT_, LC_", path)
	}
}

func (c *compiler) resource(route, id string) {
	r, ok := c.models.Resources[id]
	if !ok {
		c.badEntry("is "+quote(id)+", which is not in the catalogue", hint(id, c.catalog.at("resources").sorted(), "the catalogue has"), "routes", route, "resource")
		return
	}
	key := r.LockKey
	if key == "" {
		key = id
	}
	c.out.Resources[id] = Resource{ID: id, MaxActive: r.MaxActive, LockKey: key, Description: r.Description}
}

// toolServer takes a tool server into the snapshot.
func (c *compiler) toolServer(id string, path []string) (ToolServer, bool) {
	if s, ok := c.out.ToolServers[id]; ok {
		return s, true
	}
	s, ok := c.servers.Servers[id]
	if !ok {
		c.bad("there is no tool server "+quote(id), hint(id, c.tools.at("tool_mcp_servers").sorted(), "tool-mcp.d has"), path...)
		return ToolServer{}, false
	}
	at := func(keys ...string) []string { return append([]string{"tool_mcp_servers", id}, keys...) }
	bad := func(wrong, right string, keys ...string) { c.report(&c.problems, c.tools, wrong, right, at(keys...)) }
	out := ToolServer{
		ID: id, Transport: s.Transport, Command: s.Command, Args: list(s.Args), EnvVars: list(s.EnvVars), Env: s.Env, URL: s.URL,
		BearerTokenEnvVar: s.BearerTokenEnvVar, EnabledTools: list(s.EnabledTools), DefaultApprovalMode: or(s.DefaultApprovalMode, "writes"),
		StartupTimeoutSec: or(s.StartupTimeoutSec, 30),
	}
	if !core.ValidID(id) || id == meshServer {
		bad("can't be the id of a tool server", "of a-z, 0-9, - and _; "+meshServer+" is ours")
	}
	stdio := s.Transport == TransportStdio
	if (s.Command != "") != stdio {
		bad("goes with transport stdio, and must be there then", "", "command")
	}
	if (s.URL != "") == stdio {
		bad("goes with transport streamable_http, and must be there then", "", "url")
	}
	for _, name := range s.EnvVars {
		c.secretName(name, c.tools, at("env_vars"))
	}
	if s.BearerTokenEnvVar != "" {
		c.secretName(s.BearerTokenEnvVar, c.tools, at("bearer_token_env_var"))
	}
	if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname()))) {
		bad("is "+quote(s.URL), "must be an https URL without a password; http is for this machine alone", "url")
	}
	c.out.ToolServers[id] = out
	return out, true
}

// meshServer is our own MCP server.
const meshServer = "mmo_mesh"
