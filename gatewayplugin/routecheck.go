package gatewayplugin

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/dialect"
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

// checkHeaders refuses headers that are the gateway's, and those that are none.
func (r *route) checkHeaders() error {
	fault := func(name, wrong, right string) error {
		if wrong == "" {
			return nil
		}
		return core.Errorf(core.KindValue, "route %s: header %q %s", r.id, bounded(name), wrong).WithRemedy("%s", right)
	}
	var errs []error
	for name, value := range r.options.Headers {
		wrong, right := dialect.HeaderFault(name, value)
		errs = append(errs, fault(name, wrong, right))
	}
	for name := range r.secretHeaders {
		wrong, right := dialect.SecretHeaderFault(name, r.secret != "")
		errs = append(errs, fault(name, wrong, right))
	}
	if name := r.options.SessionHeader; name != "" {
		wrong, right := dialect.SessionHeaderFault(name)
		errs = append(errs, fault(name, wrong, right))
	}
	return errors.Join(errs...)
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
