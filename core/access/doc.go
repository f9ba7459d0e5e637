// Package access decides who is calling and what they may do.
//
// It reads a peer's identity from its socket and from the process table, makes
// and compares capability tokens, and holds the one table of rights (May, which
// is pure). It keeps no state and opens no socket; which token belongs to whom
// is for the session's supervisor to know.
package access
