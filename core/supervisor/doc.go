// Package supervisor owns one session's life: it is the only writer of the
// session's records, starts and adopts the processes that work for it, serves
// its control API, and brings everything back after a crash of any process.
//
// How a session is held together:
//
//	Run                    takes the session over (lock, epoch), recovers, serves, ends
//	├─ gatewayLink         the shared gateway process: start, adopt, arm, telemetry
//	├─ agent (one each)    an actor per agent run: host, engine, thread, inputs, events
//	│    bringUp → loop → retire
//	├─ verbs               control.Handler: what callers may ask
//	└─ hub                 what happens, for followers at a terminal
//
// Records change only in commit, which writes one fenced transaction and then
// wakes waiters. Files are published before the row that names them. An input
// to a thread is a row of its own and is sent at most once.
//
// Two endings are kept apart all through: detach (the context of Run ends; all
// work goes on and the next supervisor adopts it) and kill (an agent's own kill
// context ends; its processes are retired).
package supervisor
