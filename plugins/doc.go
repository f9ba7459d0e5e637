// Package plugins is the border between codex-mmo and its plugin processes:
// the handshake, the names and glue that go-plugin needs for the host and the
// gateway contract, and the mutual TLS that guards a plugin's socket.
//
// The contracts themselves are the protobuf files below plugins/base,
// plugins/host and plugins/gateway. Authors of plugins use plugins/sdk. Nothing
// here or below imports other packages of codex-mmo, so that a plugin compiles
// without them.
//
// A plugin's instance folder is private to one process. It holds that
// process's TLS files and its socket:
//
//	ca.pem                   the authority both sides trust; its key is not kept
//	server.pem, server.key   what the plugin shows
//	client.pem, client.key   what the caller shows, also after a restart
//	plugin<digits>           the socket
package plugins
