// Package testkit is what the tests of every layer stand on: private folders,
// the pinned Codex, our own binary, signals by identity, a websocket proxy
// that withholds frames, SQL faults, and the sweeps that end an
// end-to-end test. docs/TESTING.md tells which layer uses what.
//
// It is imported by tests alone, never by the product. Its
// functions fail the test they are given instead of returning errors, and
// undo what they did when that test ends. They never skip: a missing
// prerequisite is a failure that names its remedy.
package testkit
