// Package core holds the words of codex-mmo and the pure rules over them: ids,
// statuses and their transitions, result states, limits and typed errors.
//
// It imports the standard library alone, so that every other package may use
// it. It does no I/O, reads no clock and draws no randomness of its own.
package core
