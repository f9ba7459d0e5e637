package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
)

// tokenBytes is how much randomness a token holds: more than can be guessed.
const tokenBytes = 32

const redacted = "[redacted]"

// Token is a capability as its owner presents it. It never shows itself: every
// way of printing it gives the same fixed word. Reveal is for the wire alone.
type Token string

// Reveal returns the secret text.
func (t Token) Reveal() string { return string(t) }

// String returns a fixed word, or nothing for the empty token.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return redacted
}

// GoString hides the token from %#v.
func (t Token) GoString() string { return t.String() }

// LogValue hides the token from log/slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText hides the token from encoders.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// NewToken returns a fresh token of 43 URL-safe characters and the hash that
// the store keeps of it. Random bytes come from random, which must not fail.
func NewToken(random io.Reader) (token, sha256hex string) {
	buf := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, buf); err != nil {
		panic("access: random source failed: " + err.Error()) // no capability without randomness
	}
	token = base64.RawURLEncoding.EncodeToString(buf)
	return token, HashToken(token)
}

// HashToken returns the SHA-256 of a token in lower-case hexadecimal.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// EqualHash compares two hashes without telling by its duration where they
// differ. Two empty hashes are not equal: no hash means no token.
func EqualHash(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
