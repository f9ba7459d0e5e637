package gatewayplugin

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// takeSecrets looks up the route's secrets among those of the session.
func (r *route) takeSecrets(name string, secrets map[string]string) error {
	r.used = map[string]string{}
	take := func(name string) error {
		secret, ok := secrets[name]
		if !ok || secret == "" {
			return core.Errorf(core.KindValue, "route %s: there is no secret %s", r.id, name).
				WithRemedy("add %s to credentials.env", name)
		}
		if strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return core.Errorf(core.KindValue, "route %s: the secret %s has control characters", r.id, name)
		}
		r.used[name] = secret
		r.secrets = append(r.secrets, secret)
		return nil
	}
	if name != "" {
		if err := take(name); err != nil {
			return err
		}
		r.secret = r.used[name]
	}
	r.secretHeaders = map[string]string{}
	for header, name := range r.options.SecretHeaders {
		if err := take(name); err != nil {
			return err
		}
		r.secretHeaders[header] = r.used[name]
	}
	return nil
}

// check reports what is wrong with a route to a provider.
func (r *route) check() error {
	return errors.Join(r.checkURL(), r.checkHeaders(), r.checkPrices(), r.checkRetries())
}

func (r *route) checkURL() error {
	u, err := url.Parse(r.baseURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return core.Errorf(core.KindValue, "route %s: base_url %q is no http or https URL without a query", r.id, r.secrets.clean(r.baseURL))
	}
	if u.Scheme == "http" && len(r.secrets) > 0 && !isLoopback(u.Hostname()) {
		return core.Errorf(core.KindValue, "route %s: base_url %q would send the secret unencrypted", r.id, r.secrets.clean(r.baseURL)).
			WithRemedy("use https")
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ownHeaders are set by the gateway alone.
var ownHeaders = []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "Host", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Accept", "Accept-Encoding"}

// checkHeaders refuses headers that are the gateway's, and those that are none.
func (r *route) checkHeaders() error {
	for name, value := range r.options.Headers {
		switch {
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
			return core.Errorf(core.KindValue, "route %s: header %s can't be set by options", r.id, name).
				WithRemedy("name a secret for what authorises")
		case !validHeader(name, value):
			return core.Errorf(core.KindValue, "route %s: %q is no header that can be sent", r.id, bounded(name))
		}
	}
	for name, value := range r.secretHeaders {
		switch {
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) && !authorises(name):
			return core.Errorf(core.KindValue, "route %s: header %s can't be set by options", r.id, name)
		case authorises(name) && r.secret != "":
			return core.Errorf(core.KindValue, "route %s: header %s has two secrets", r.id, name).
				WithRemedy("leave out the route's secret, or the header")
		case !validHeader(name, value):
			return core.Errorf(core.KindValue, "route %s: %q is no header that can be sent", r.id, bounded(name))
		}
	}
	if name := r.options.SessionHeader; name != "" && (slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) || !validHeader(name, "")) {
		return core.Errorf(core.KindValue, "route %s: header %q can't name the conversation", r.id, bounded(name))
	}
	return nil
}

// authorises reports whether a header carries credentials, so that it may be
// set from a secret.
func authorises(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return name == "Authorization" || name == "X-Api-Key"
}

// validHeader reports whether a header can be sent: a token of RFC 9110, and a
// value without control characters.
func validHeader(name, value string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	token := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(marks, r)
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !token(r) }) &&
		!strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

func (r *route) checkPrices() error {
	for key, p := range r.options.Prices {
		if p == nil || !p.valid() {
			return core.Errorf(core.KindValue, "route %s: the prices of %q can't be used", r.id, key).
				WithRemedy("write input and output as dollars for a million tokens, like \"1.25\"")
		}
	}
	return nil
}

func (r *route) checkRetries() error {
	if n := r.retries(); n < 0 || n > maxRetries {
		return core.Errorf(core.KindValue, "route %s: retries must be 0 to %d, not %d", r.id, maxRetries, n)
	}
	return nil
}

// retries is how often a request of the route is sent again.
func (r *route) retries() int {
	if r.options.Retries != nil {
		return *r.options.Retries
	}
	return defaultRetries
}
