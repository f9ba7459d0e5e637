package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// The test binary plays the programs that are tried, by the name it is started
// under: a link to it in a test's folder.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch {
	case strings.HasPrefix(name, "mcp-"):
		os.Exit(playMCP(name))
	case strings.HasPrefix(name, "codex-"):
		os.Exit(playCodex(name))
	}
	goleak.VerifyTestMain(m)
}

// role makes a link under which the test binary plays a program.
func role(t *testing.T, dir, name string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.Symlink(own, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func block() {
	stay := make(chan os.Signal)
	<-stay
}

// playMCP is an MCP server, good or with one thing wrong.
func playMCP(name string) int {
	switch name {
	case "mcp-exit":
		fmt.Fprintln(os.Stderr, "no such\nlibrary")
		return 3
	case "mcp-sleeper":
		block()
	case "mcp-mute": // never answers, and leaves a child in a session of its own
		child := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "mcp-sleeper"))
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return 1
		}
		pid := []byte(strconv.Itoa(child.Process.Pid))
		if err := os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), "child.pid"), pid, 0o600); err != nil {
			return 1
		}
		block()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var request struct {
			ID     int    `json:"id"`
			Method string `json:"method"`
		}
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return 1
		}
		switch request.Method {
		case "initialize":
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message"}`) // to be passed over
			version := mcpProtocol
			switch name {
			case "mcp-old":
				version = "2024-11-05"
			case "mcp-babble":
				fmt.Println("hello")
			case "mcp-flood":
				fmt.Println(strings.Repeat("x", maxSaid+1))
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":%q}}`+"\n", request.ID, version)
		case "tools/list":
			fmt.Println(listTools(name, request.ID))
		}
	}
	return 0
}

// listTools answers with the tools that the control socket grants.
func listTools(name string, id int) string {
	token := os.Getenv("MMO_CALLER_TOKEN")
	if name == "mcp-thief" {
		token = "another"
	}
	client := control.Dial(os.Getenv("MMO_CONTROL_SOCKET"), &control.ClientOptions{Token: access.Token(token)})
	caller, err := client.Caller(context.Background(), control.Meta{})
	if err != nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":%q}}`, id, err)
	}
	if name == "mcp-few" {
		caller.Tools = caller.Tools[1:]
	}
	var tools []string
	for _, tool := range caller.Tools {
		tools = append(tools, fmt.Sprintf(`{"name":%q}`, tool))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]}}`, id, strings.Join(tools, ","))
}

// playCodex is a Codex whose sandbox has something wrong.
func playCodex(name string) int {
	switch name {
	case "codex-none":
		fmt.Fprintln(os.Stderr, "bwrap: no namespaces")
		return 1
	case "codex-other":
		fmt.Fprintln(os.Stderr, "error: unexpected argument '-P'\n\nUsage: codex sandbox")
		return 2
	case "codex-hang":
		block()
	}
	// No sandbox at all: the command runs as it is.
	command := os.Args[slices.Index(os.Args, "--")+1:]
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	return 0
}
