// Package basepb is the generated Go code of base.proto, version 1 of the
// plugin contract's base part. `make generate` writes it again.
package basepb
