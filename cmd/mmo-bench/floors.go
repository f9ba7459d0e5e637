package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// Modes that this program runs itself in, to be a floor in a process of its
// own.
const (
	modeEmptyMCP = "floor-mcp"  // an MCP server without a tool
	modeEcho     = "floor-echo" // answers each byte on a unix socket
	modeWake     = "floor-wake" // sends its clock on a unix socket, now and then

	modeProvider     = "floor-provider" // the provider of the gateway's figures, on an address
	modeFloorGateway = "floor-gateway"  // a gateway to the provider at a URL
)

// wakePause is how long the bare waker lets its client sleep, so that the
// client really sleeps.
const wakePause = 10 * time.Millisecond

// runMode runs one of the modes; ok is false for another word.
func runMode(args []string) (ok bool, err error) {
	switch {
	case len(args) == 1 && args[0] == modeEmptyMCP:
		return true, server.ServeStdio(server.NewMCPServer("empty", "1", server.WithToolCapabilities(false)))
	case len(args) == 2 && args[0] == modeEcho:
		return true, serveOnce(args[1], func(conn net.Conn) error {
			_, err := io.Copy(conn, conn)
			return err
		})
	case len(args) == 2 && args[0] == modeWake:
		return true, serveOnce(args[1], wake)
	case len(args) == 2 && args[0] == modeProvider:
		return true, announce(args[1], serveProvider)
	case len(args) == 2 && args[0] == modeFloorGateway:
		return true, announce("127.0.0.1:0", func(l net.Listener) error { return serveFloor(l, args[1]) })
	}
	return false, nil
}

// serveOnce serves one client on a unix socket. The client knows that it is
// there by the line on stdout.
func serveOnce(path string, serve func(net.Conn) error) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	defer listener.Close()
	fmt.Println("ready")
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	return serve(conn)
}

// wake sends the clock, in nanoseconds, after each pause until the client goes.
func wake(conn net.Conn) error {
	pause := time.NewTicker(wakePause)
	defer pause.Stop()
	for range pause.C {
		if err := binary.Write(conn, binary.BigEndian, time.Now().UnixNano()); err != nil {
			return nil // the client has seen enough
		}
	}
	return nil
}

// roundTrips measures n bytes there and back to another process, in
// microseconds.
func roundTrips(ctx context.Context, dir string, n int) ([]float64, error) {
	return withPeer(ctx, dir, modeEcho, func(conn net.Conn) ([]float64, error) {
		var all []float64
		buffer := make([]byte, 1)
		for range n {
			start := time.Now()
			if _, err := conn.Write(buffer); err != nil {
				return nil, err
			}
			if _, err := io.ReadFull(conn, buffer); err != nil {
				return nil, err
			}
			all = append(all, microseconds(time.Since(start)))
		}
		return all, nil
	})
}

// wakeUps measures how long after another process sent its clock this one
// reads it, in microseconds.
func wakeUps(ctx context.Context, dir string, n int) ([]float64, error) {
	return withPeer(ctx, dir, modeWake, func(conn net.Conn) ([]float64, error) {
		var all []float64
		for range n {
			var sent int64
			if err := binary.Read(conn, binary.BigEndian, &sent); err != nil {
				return nil, err
			}
			all = append(all, microseconds(time.Since(time.Unix(0, sent))))
		}
		return all, nil
	})
}

// withPeer runs this program in a mode and talks to it.
func withPeer(ctx context.Context, dir, mode string, talk func(net.Conn) ([]float64, error)) (all []float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, mode)
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, mode, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		stop()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	defer func() {
		stop()
		_ = cmd.Wait()      // it was killed, or ended when its client left
		_ = os.Remove(path) // it may have done that itself
	}()
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return nil, fmt.Errorf("%s did not start: %w", mode, err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return talk(conn)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
