// Package gatewayplugin is the bundled gateway: it serves the OpenAI Responses
// wire to Codex on loopback, whatever the provider speaks, and holds the
// providers' keys.
//
// The one invariant: what belongs to a tenant (a session) is used for that
// tenant alone. Routes, keys, bearers, the fence and telemetry are looked up
// through the bearer of the request or the fence of the call, never by name
// across tenants.
//
// A request's way:
//
//	front.serveResponses      host, origin, bearer, body, route, model
//	  exchange.run            one upstream attempt, events to Codex
//	    exchange.prepare      the provider's request (translate.ChatRequest …)
//	    upstream.pump         goroutine: sends it, reads server-sent events
//	    answer.Take           each event, translated
//	    exchange.end          telemetry row, then the one terminal event
//
// Codex decides by the form of a failure what it does next, so every failure
// of a provider is answered with status 200, response.created, response.failed
// with a chosen code, and the end of the connection; failure.go has the table.
package gatewayplugin
