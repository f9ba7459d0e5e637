package main

import (
	"errors"
	"fmt"
	"path/filepath"
)

// version is the Codex that the tests and the demo run on.
const version = "0.149.0"

// pin says what one platform's package must be.
type pin struct {
	platform  string // npm's name of the platform, the suffix of the version
	triple    string // folder below vendor/ in the archive
	integrity string // sha512 of the archive as npm writes it; empty: not measured
	sha256    string // of bin/codex, hex; empty: not measured
}

// pins lists the platforms that Codex is published for. Digests were measured
// on packages that npm had verified.
var pins = map[string]pin{ // GOOS/GOARCH -> pin
	"linux/amd64": {
		platform:  "linux-x64",
		triple:    "x86_64-unknown-linux-musl",
		integrity: "sha512-uZXaN9JPxu0/jjnqqJeTd4kRYPnjVZK3MiVndfG1mHhEaoDKL7ScWHfPqvAEOjwsSDEmQSlMfUkmvYp/CHciYw==",
		sha256:    "bbc3341e44c9ead340ed9570c17be936e37870f570751a941699ffd04d672827",
	},
	"linux/arm64":  {platform: "linux-arm64", triple: "aarch64-unknown-linux-musl"},
	"darwin/amd64": {platform: "darwin-x64", triple: "x86_64-apple-darwin"},
	"darwin/arm64": {platform: "darwin-arm64", triple: "aarch64-apple-darwin"},
}

func pinFor(goos, goarch string) (pin, error) {
	p, ok := pins[goos+"/"+goarch]
	if !ok {
		return pin{}, fmt.Errorf("no Codex package is known for %s/%s; use Linux or macOS on x64 or arm64", goos, goarch)
	}
	return p, nil
}

// spec is the package as npm is asked for it.
func (p pin) spec() string { return "@openai/codex@" + version + "-" + p.platform }

// cacheDir returns the folder that the user's caches lie in.
func cacheDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("XDG_CACHE_HOME is %q, which is not an absolute path; set it to one or unset it", dir)
		}
		return dir, nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("neither XDG_CACHE_HOME nor HOME is set; set HOME to your home folder")
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("HOME is %q, which is not an absolute path; set it to your home folder", home)
	}
	return filepath.Join(home, ".cache"), nil
}
