package plugins

// ListenerSocket is the name of a unix socket, mode 0600, in the instance folder
// of a gateway that has been started. Each connection of the same user is sent
// one byte with a duplicate of the HTTP listener's descriptor (SCM_RIGHTS) and
// closed. Sessions hold such a duplicate, so that the port stays theirs, and
// requests wait in its queue, while a lost gateway is replaced. A gateway need
// not offer it.
const ListenerSocket = "listener.sock"
