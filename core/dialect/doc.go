// Package dialect says what may be set of a route to a provider: its headers and
// its quirks. Profiles are checked by it when they are compiled, and the gateway
// checks by it what it is told.
package dialect
