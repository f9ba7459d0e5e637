package modeltest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
)

// A script, a server, a request, and what the engine recorded.
func Example() {
	script, err := modeltest.Parse(`
model greeter
  step
    say "Hello."
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := modeltest.NewServer(context.Background(), script, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	body := `{"model": "greeter", "stream": true, "messages": [{"role": "user", "content": "hi"}]}`
	resp, err := client.Post(server.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	stream, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := server.Engine.Requests()[0]
	fmt.Println(resp.StatusCode == http.StatusOK, strings.Contains(string(stream), `"content":"Hello."`))
	fmt.Println(request.Conversation.Model, request.Section, request.Step)
	// Output:
	// true true
	// greeter plain steps 1
}
