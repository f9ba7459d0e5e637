# Everything that is done with this repository, in ten targets. Each works on
# a fresh clone with Go, git and Node's npm; test also needs a C compiler (race
# detector) and tmux (the screen).

BUILD   := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(BUILD)
PROTOS  := plugins/base/proto/base.proto plugins/host/proto/host.proto plugins/gateway/proto/gateway.proto
TOOLS   := ./fetchcodex ./protogen ./testrun mvdan.cc/gofumpt honnef.co/go/tools/cmd/staticcheck \
	google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc

.PHONY: help build codex codex-all demo test lint fmt generate bench clean tools
.DEFAULT_GOAL := help

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

build: ## build bin/codex-mmo
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/codex-mmo ./cmd/codex-mmo

codex: ## fetch the pinned Codex from npm into the user's cache, once
	@go -C .tools run ./fetchcodex

codex-all: ## fetch every Codex that was reviewed: some tests run on each
	@go -C .tools run ./fetchcodex all

demo: build codex ## run a whole team on the offline model: no account, no network
	bin/codex-mmo demo

test: codex-all lint ## lint, then all tests with the race detector; prints the time of each suite
	bin/tools/testrun . .tools -- -race -shuffle=on -p 2 -timeout 20m

lint: tools ## check format, vet, staticcheck, go.mod and generated code
	@unformatted="$$(bin/tools/gofumpt -l . .tools)" && test -z "$$unformatted" || { echo "run make fmt: $$unformatted"; exit 1; }
	go vet ./...
	bin/tools/staticcheck ./...
	go mod tidy -diff
	go -C .tools vet ./...
	go -C .tools mod tidy -diff
	bin/tools/protogen -check $(PROTOS)
	@rm -rf bin/schemas && go run ./cmd/codex-mmo profile schema --write bin/schemas >/dev/null
	@diff -r bin/schemas docs/schemas || { echo "run make generate"; exit 1; }

fmt: tools ## format all Go code
	bin/tools/gofumpt -w . .tools

generate: tools ## write the plugin contracts' Go code and the files' schemas
	bin/tools/protogen $(PROTOS)
	go run ./cmd/codex-mmo profile schema --write docs/schemas

bench: build codex ## measure against floors on this machine
	go build -o bin/mmo-bench ./cmd/mmo-bench
	bin/mmo-bench -binary bin/codex-mmo

clean: ## remove what was built here; the cache with Codex stays
	rm -rf bin

tools:
	@mkdir -p bin/tools && go -C .tools build -o ../bin/tools/ $(TOOLS)
