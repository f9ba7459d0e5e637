// Package appserver is a strict client of Codex's app-server: JSON-RPC without
// the "jsonrpc" member, one object per text frame, over a websocket on a unix
// socket.
//
// It knows frames, request ids and the retry of an overloaded server, and
// nothing of threads or turns. Its one invariant: what the callbacks of
// [Options] saw is exactly what went over the wire, in that order. The facts
// behind it were measured on app-server 0.149.0 and 0.171.0.
package appserver
