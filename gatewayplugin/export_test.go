package gatewayplugin

import (
	"reflect"
	"time"
)

// SetIdle changes the idle time of a started gateway, so that a test can have
// hosts before it begins.
func (g *Gateway) SetIdle(after time.Duration) { g.holders.setIdle(after) }

// RouteOptions is the type of a route's options, whose keys are documented.
var RouteOptions = reflect.TypeFor[routeOptions]()
