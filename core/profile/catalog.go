package profile

import (
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// model takes an agent's model, and its route, from the catalogue into the
// snapshot.
func (c *compiler) model(agentKey, key string) Model {
	if m, ok := c.out.Models[key]; ok {
		return m
	}
	m, ok := c.catalog.Models[key]
	if !ok {
		c.bad("profile.toml", agentKey+"model", "%q is not in the catalogue", key)
		return Model{}
	}
	at := "models." + key + "."
	if !core.ValidID(key) {
		c.bad("catalog.toml", "models."+key, "can't be the key of a model")
	}
	for _, text := range []struct{ name, value string }{
		{"upstream_id", m.UpstreamID}, {"maker", m.Maker}, {"base_instructions", m.BaseInstructions},
	} {
		if text.value == "" {
			c.bad("catalog.toml", at+text.name, "is missing")
		}
	}
	if len(m.Modalities) == 0 || slices.ContainsFunc(m.Modalities, func(s string) bool { return s != "text" && s != "image" }) {
		c.bad("catalog.toml", at+"modalities", "must be of text and image, not %q", m.Modalities)
	}
	if !slices.Contains(m.ReasoningLevels, m.DefaultReasoning) {
		c.bad("catalog.toml", at+"default_reasoning", "%q is not one of its reasoning_levels", m.DefaultReasoning)
	}
	if m.ContextWindow < 1024 {
		c.bad("catalog.toml", at+"context_window", "must be at least 1024 tokens, not %d", m.ContextWindow)
	}
	c.route(at, m.Route)
	out := Model{
		Key: key, Route: m.Route, UpstreamID: m.UpstreamID, Maker: m.Maker,
		Modalities: m.Modalities, ReasoningLevels: m.ReasoningLevels, DefaultReasoning: m.DefaultReasoning,
		ContextWindow: m.ContextWindow, BaseInstructions: m.BaseInstructions,
	}
	c.out.Models[key] = out
	return out
}

func (c *compiler) route(modelKey, id string) {
	if _, ok := c.out.Routes[id]; ok {
		return
	}
	r, ok := c.catalog.Routes[id]
	if !ok {
		c.bad("catalog.toml", modelKey+"route", "%q is not in the catalogue", id)
		return
	}
	at := "routes." + id + "."
	if !core.ValidID(id) {
		c.bad("catalog.toml", "routes."+id, "can't be the id of a route")
	}
	for _, check := range []struct {
		name, value string
		want        []string
	}{
		{"driver", r.Driver, []string{DriverOffline}},
		{"wire_protocol", r.WireProtocol, []string{WireChat, WireAnthropic}},
		{"billing_mode", r.BillingMode, []string{BillingScripted}},
	} {
		if !slices.Contains(check.want, check.value) {
			c.bad("catalog.toml", at+check.name, "must be one of %s, not %q", strings.Join(check.want, ", "), check.value)
		}
	}
	if r.Name == "" {
		c.bad("catalog.toml", at+"name", "is missing")
	}
	script, err := c.folder.read(r.Script)
	if err != nil {
		c.bad("catalog.toml", at+"script", "can't be read: %v", err)
	}
	c.out.Routes[id] = Route{
		ID: id, Name: r.Name, Driver: r.Driver, WireProtocol: r.WireProtocol,
		BillingMode: r.BillingMode, Script: string(script),
	}
}
