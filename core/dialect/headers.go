package dialect

import (
	"net/http"
	"slices"
	"strings"
)

// own are the headers that whoever sends a request sets alone.
var own = []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "Host", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Accept", "Accept-Encoding"}

// HeaderFault says what is wrong with a header of a plain value, and what would
// be right; "", "" when nothing is.
func HeaderFault(name, value string) (wrong, right string) {
	switch {
	case authorises(name):
		return "would put a key in the open", "name a secret for what authorises"
	case isOwn(name):
		return "can't be set", "leave it out"
	case !valid(name, value):
		return "is no header that can be sent", "use a name of letters, digits and -, and a value without control characters"
	}
	return "", ""
}

// SecretHeaderFault is HeaderFault for a header whose value is a secret. keyed
// says that the route has a secret that authorises beside it.
func SecretHeaderFault(name string, keyed bool) (wrong, right string) {
	switch {
	case authorises(name) && keyed:
		return "has two secrets", "leave out the route's secret, or the header"
	case isOwn(name) && !authorises(name):
		return "can't be set", "leave it out"
	case !valid(name, ""):
		return "is no header that can be sent", "use a name of letters, digits and -"
	}
	return "", ""
}

// SessionHeaderFault is HeaderFault for the header that names a conversation.
func SessionHeaderFault(name string) (wrong, right string) {
	if isOwn(name) || !valid(name, "") {
		return "can't name the conversation", "use another name, of letters, digits and -"
	}
	return "", ""
}

func isOwn(name string) bool { return slices.Contains(own, http.CanonicalHeaderKey(name)) }

// authorises reports whether a header carries credentials, so that it may be
// set from a secret.
func authorises(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return name == "Authorization" || name == "X-Api-Key"
}

// valid reports whether a header can be sent: a token of RFC 9110, and a value
// without control characters.
func valid(name, value string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	token := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r)
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !token(r) }) &&
		!strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
