// Command bifrost serves the Responses wire over bifrost core as a library, for
// cmd/mmo-bench to measure beside our gateway. It is a module of its own, so that
// nothing of it is in ours.
//
//	go run . PROVIDER_URL ADDRESS
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	bifrost "github.com/maximhq/bifrost/core"
	"github.com/maximhq/bifrost/core/schemas"
)

// account is one provider at a URL, with one key.
type account struct{ url string }

// GetConfiguredProviders names the provider.
func (account) GetConfiguredProviders() ([]schemas.ModelProvider, error) {
	return []schemas.ModelProvider{schemas.OpenAI}, nil
}

// GetKeysForProvider returns the key.
func (account) GetKeysForProvider(context.Context, schemas.ModelProvider) ([]schemas.Key, error) {
	return []schemas.Key{{ID: "bench", Name: "bench", Value: *schemas.NewSecretVar("key"), Models: []string{"*"}, Weight: 1}}, nil
}

// GetConfigForProvider returns where it is.
func (a account) GetConfigForProvider(schemas.ModelProvider) (*schemas.ProviderConfig, error) {
	return &schemas.ProviderConfig{
		NetworkConfig:            schemas.NetworkConfig{BaseURL: a.url, DefaultRequestTimeoutInSeconds: 120},
		ConcurrencyAndBufferSize: schemas.ConcurrencyAndBufferSize{Concurrency: 16, BufferSize: 64},
	}, nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: bifrost PROVIDER_URL ADDRESS")
	}
	client, err := bifrost.Init(context.Background(), schemas.BifrostConfig{Account: account{os.Args[1]}, Logger: bifrost.NewNoOpLogger()})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchange(client, w, r)
	})))
}

// exchange answers one request of Codex by way of Chat Completions.
func exchange(client *bifrost.Bifrost, w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string
		schemas.ResponsesParameters
		Input []schemas.ResponsesMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := &schemas.BifrostResponsesRequest{Provider: schemas.OpenAI, Model: in.Model, Input: in.Input, Params: &in.ResponsesParameters}
	ctx := schemas.NewBifrostContext(r.Context(), time.Now().Add(time.Minute))
	chunks, failure := client.ChatCompletionStreamRequest(ctx, request.ToChatRequest())
	if failure != nil {
		http.Error(w, fmt.Sprint(failure.Error.Message), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "close")
	fmt.Fprint(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")
	for chunk := range chunks {
		if chunk.BifrostChatResponse == nil {
			continue
		}
		for _, c := range chunk.BifrostChatResponse.Choices {
			if c.ChatStreamResponseChoice == nil || c.ChatStreamResponseChoice.Delta == nil || c.ChatStreamResponseChoice.Delta.Content == nil {
				continue
			}
			event, err := json.Marshal(map[string]any{"type": "response.output_text.delta", "delta": *c.ChatStreamResponseChoice.Delta.Content})
			if err != nil {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
	}
	fmt.Fprint(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n")
}
