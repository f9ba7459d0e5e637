// Package gatewaypb is the generated Go code of gateway.proto, version 1 of the
// plugin contract's gateway part. `make generate` writes it again.
package gatewaypb
