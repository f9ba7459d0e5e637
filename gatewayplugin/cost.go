package gatewayplugin

import (
	"bytes"
	"encoding/json"
	"math/big"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// prices are those of one model, in US dollars for a million tokens, as
// decimal text or numbers.
type prices struct {
	Input json.Number `json:"input"`
	// CachedInput is that of input read from the provider's cache; empty: as
	// Input.
	CachedInput json.Number `json:"cached_input"`
	// CacheWrite is that of input written to it; empty: as Input.
	CacheWrite json.Number `json:"cache_write"`
	Output     json.Number `json:"output"`
}

// valid reports whether the prices can be used.
func (p *prices) valid() bool {
	for _, n := range []json.Number{p.CachedInput, p.CacheWrite} {
		if n != "" && !dollars.MatchString(n.String()) {
			return false
		}
	}
	return dollars.MatchString(p.Input.String()) && dollars.MatchString(p.Output.String())
}

// of returns the cost of tokens. cached and written are parts of input.
func (p *prices) of(input, cached, written, output uint64) *big.Rat {
	total := new(big.Rat)
	add := func(tokens uint64, price json.Number) {
		if price == "" {
			price = p.Input
		}
		rate, _ := new(big.Rat).SetString(price.String()) // checked when the route was made
		total.Add(total, rate.Mul(rate, new(big.Rat).SetFrac(new(big.Int).SetUint64(tokens), big.NewInt(1_000_000))))
	}
	rest := input - min(input, cached+written)
	add(rest, p.Input)
	add(cached, p.CachedInput)
	add(written, p.CacheWrite)
	add(output, p.Output)
	return total
}

const (
	// bytesPerToken is how an answer without counts is estimated. Text of
	// programs has three to four bytes a token.
	bytesPerToken = 4
	// imageTokens is what an image is taken for, in tokens.
	imageTokens = 1500
)

// account fills in a row's counts, its cost, and what the budgets are charged.
// What the provider did not count is estimated for the budgets alone, and only
// where it has worked for us.
func (x *exchange) account(row *gatewaypb.TelemetryEvent) {
	counts := x.result.Counts
	if counts == nil {
		counts = &chat.Usage{}
	}
	row.InputTokens, row.OutputTokens = counts.PromptTokens, counts.CompletionTokens
	if d := counts.PromptTokensDetails; d != nil {
		row.CachedInputTokens, row.CacheWriteTokens = d.CachedTokens, d.CacheWriteTokens
	}
	if d := counts.CompletionDetails; d != nil {
		row.ReasoningTokens = d.ReasoningTokens
	}
	input, output := counts.PromptTokens, counts.CompletionTokens
	estimated := x.worked(row.GetOutcome()) && (input == nil || output == nil)
	if estimated {
		input, output = orEstimate(input, requestTokens(x.body)), orEstimate(output, uint64(x.result.Bytes)/bytesPerToken)
	}
	row.ChargedTokens = value(input) + value(output)
	row.CostUsd, row.CostSource = decimal(counts.Cost), "provider"
	switch p := x.route.prices(x.request.Model); {
	case row.CostUsd != "":
	case p == nil || row.ChargedTokens == 0:
		row.CostSource = ""
	default:
		row.CostSource = "prices"
		if estimated {
			row.CostSource = "estimate"
		}
		row.CostUsd = money(p.of(value(input), row.GetCachedInputTokens(), row.GetCacheWriteTokens(), value(output)))
	}
}

// worked reports whether the provider has done what it may ask money for.
func (x *exchange) worked(outcome string) bool {
	return x.attemptNo > 0 && (outcome != "failed" || x.result.Bytes > 0)
}

func value(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

func orEstimate(n *uint64, estimate uint64) *uint64 {
	if n != nil {
		return n
	}
	return &estimate
}

// requestTokens estimates the tokens of a request of Codex. Images are not
// worth their bytes.
func requestTokens(body []byte) uint64 {
	var tokens uint64
	for {
		head, rest, found := bytes.Cut(body, []byte(";base64,"))
		tokens += uint64(len(head)) / bytesPerToken
		if !found {
			return tokens
		}
		tokens += imageTokens
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			return tokens
		}
		body = rest[end:]
	}
}
