// Package control is the control API of a session: HTTP/1.1 with JSON over the
// supervisor's unix socket, with its server and its client.
//
// The server lets nobody in by what they say alone. Before a byte of a request's
// body is read, it checks in this order that the peer belongs to our user, that
// it lives in our namespaces, that it speaks this version of the API, and that
// it either presents a token or has no agent of ours among its ancestors. What
// a token is worth is for the Handler to know.
//
// The client tells what became of a call: answered, refused, not delivered, or
// unknown. It repeats a call only where a repeat can do no harm.
package control
