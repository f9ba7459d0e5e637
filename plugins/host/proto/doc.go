// Package hostpb is the generated Go code of host.proto, version 1 of the
// plugin contract's host part. `make generate` writes it again.
package hostpb
