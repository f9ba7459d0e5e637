// Package sdk is what the author of a plugin imports. A plugin is a main of a
// few lines:
//
//	func main() {
//		err := sdk.ServeGateway(sdk.Info{Name: "echo", Version: "0.1.0", Drivers: []string{"echo"}}, &gateway{})
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//	}
//
// The package keeps the promises that the caller relies on: the plugin
// survives whoever started it, its output goes to its log from the first call
// on, only holders of the instance's client certificate are served, Describe
// is answered, and SIGTERM ends it in order.
//
// A plugin must not write to file descriptor 1 before Serve has printed the
// handshake there; os.Stdout and os.Stderr may be used afterwards.
package sdk
