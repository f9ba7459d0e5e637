package admission

import (
	"fmt"
	"math"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// nano is how many billionths make one.
const nano = 1_000_000_000

// FormatTokens writes an amount of tokens for people.
func FormatTokens(n int64) string { return fmt.Sprintf("%d tokens", n) }

// FormatUSD writes an amount of money for people.
func FormatUSD(nanoUSD int64) string { return DecimalUSD(nanoUSD) + " USD" }

// DecimalUSD writes an amount of money, not negative, as exact decimal text.
func DecimalUSD(nanoUSD int64) string {
	text := fmt.Sprintf("%d.%09d", nanoUSD/nano, nanoUSD%nano)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// maxUSD keeps sums of money within an int64 of billionths.
const maxUSD = 1_000_000

// NanoUSD turns a configured amount of money into billionths, rounded to the
// nearest.
func NanoUSD(usd float64) (int64, error) {
	if math.IsNaN(usd) || usd < 0 || usd > maxUSD {
		return 0, core.Errorf(core.KindValue, "a budget of %v USD is out of range", usd).WithRemedy("use 0 to %d", maxUSD)
	}
	return int64(math.Round(usd * nano)), nil
}
