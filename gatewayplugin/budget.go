package gatewayplugin

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

const (
	// maxBudgets bounds the budgets of one session.
	maxBudgets = 65536
	// maxBudgetIDs bounds those of one bearer: its job's and each ancestor's.
	maxBudgetIDs = 64
)

// budget is what the bearers that name it have spent, and its limits.
type budget struct {
	spent    uint64 // tokens
	spentUSD big.Rat
	// unpriced says that an answer's cost is known to nobody, so that spentUSD
	// is too small.
	unpriced bool

	set    bool     // the supervisor has set its limits
	tokens *uint64  // limit; nil: none
	usd    *big.Rat // limit; nil: none
}

// ledger adds up what a session's requests have cost. All of it is found again
// in the telemetry, so the next gateway begins where this one ended.
type ledger struct {
	mu      sync.Mutex
	budgets map[string]*budget // budget id -> it
}

func newLedger() *ledger {
	return &ledger{budgets: map[string]*budget{}}
}

// charge counts an attempt, also one of an earlier gateway.
func (l *ledger) charge(row *gatewaypb.TelemetryEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := row.GetChargedTokens()
	cost, priced := new(big.Rat).SetString(row.GetCostUsd())
	for _, id := range row.GetBudgetIds() {
		b := l.budgetLocked(id)
		b.spent += tokens
		switch {
		case priced:
			b.spentUSD.Add(&b.spentUSD, cost)
		case tokens > 0 && (row.GetOutcome() == "completed" || row.GetOutcome() == "incomplete"):
			b.unpriced = true // what was cut off would close it at every interrupt
		}
	}
}

func (l *ledger) budgetLocked(id string) *budget {
	b := l.budgets[id]
	if b == nil {
		b = &budget{}
		l.budgets[id] = b
	}
	return b
}

// refusal says why a bearer may send nothing more, or "". What is not known is
// refused: money that nobody can add up, and a budget that nobody has set.
func (l *ledger) refusal(tok *token) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range tok.budgets {
		if why := l.budgetLocked(id).refusal(id); why != "" {
			return why
		}
	}
	return ""
}

func (b *budget) refusal(id string) string {
	switch {
	case !b.set:
		return fmt.Sprintf("the budget %s has not been set", id)
	case b.tokens != nil && b.spent >= *b.tokens:
		return fmt.Sprintf("the shared token budget of %d (%s) is used up", *b.tokens, id)
	case b.usd != nil && b.unpriced:
		return fmt.Sprintf("the shared budget of %s USD (%s) is closed: the cost of an answer is not known", money(b.usd), id)
	case b.usd != nil && b.spentUSD.Cmp(b.usd) >= 0:
		return fmt.Sprintf("the shared budget of %s USD (%s) is used up", money(b.usd), id)
	}
	return ""
}

// dollars is how an amount of money is written.
var dollars = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)

// money writes an amount in decimal, rounded to a billionth.
func money(amount *big.Rat) string {
	text := amount.FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// validBudgetID reports whether an id can stand in a message and a row.
func validBudgetID(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f })
}

// UpdateBudget sets the limits of a budget.
func (g *Gateway) UpdateBudget(_ context.Context, req *gatewaypb.UpdateBudgetRequest) (*gatewaypb.UpdateBudgetResponse, error) {
	id := req.GetBudgetId()
	if !validBudgetID(id) {
		return nil, status.Errorf(codes.InvalidArgument, "budget_id %q must be 1 to 128 characters without blanks", bounded(id))
	}
	var usd *big.Rat
	if text := req.GetUsd(); text != "" {
		if !dollars.MatchString(text) {
			return nil, status.Errorf(codes.InvalidArgument, "budget %s: usd %q is no amount of money", id, bounded(text))
		}
		usd, _ = new(big.Rat).SetString(text) // checked above
	}
	t, err := g.enter(req.GetTenant())
	if err != nil {
		return nil, err
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.ledger.budgets[id] == nil && len(t.ledger.budgets) >= maxBudgets {
		return nil, status.Errorf(codes.ResourceExhausted, "session %s has %d budgets", t.session, maxBudgets)
	}
	b := t.ledger.budgetLocked(id)
	b.set, b.tokens, b.usd = true, req.Tokens, usd
	return &gatewaypb.UpdateBudgetResponse{}, nil
}
