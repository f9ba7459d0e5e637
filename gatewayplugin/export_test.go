package gatewayplugin

import "time"

// SetIdle changes the idle time of a started gateway, so that a test can have
// hosts before it begins.
func (g *Gateway) SetIdle(after time.Duration) { g.holders.setIdle(after) }
