package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// preferred is the Codex that the tests and the demo run on. The other pinned
// ones are reviewed too, and some tests run on all of them.
const preferred = "0.149.0"

// pin says what one platform's package of one version must be.
type pin struct {
	version   string
	platform  string // npm's name of the platform, the suffix of the version
	triple    string // folder below vendor/ in the archive
	integrity string // sha512 of the archive as npm writes it; empty: not measured
	sha256    string // of bin/codex, hex; empty: not measured
}

// versions lists the pinned ones, the preferred one first.
var versions = []string{preferred, "0.171.0"}

// platforms are those that Codex is published for.
var platforms = map[string]pin{ // GOOS/GOARCH -> pin
	"linux/amd64":  {platform: "linux-x64", triple: "x86_64-unknown-linux-musl"},
	"linux/arm64":  {platform: "linux-arm64", triple: "aarch64-unknown-linux-musl"},
	"darwin/amd64": {platform: "darwin-x64", triple: "x86_64-apple-darwin"},
	"darwin/arm64": {platform: "darwin-arm64", triple: "aarch64-apple-darwin"},
}

// digests were measured on packages that npm had verified: version and npm's
// platform -> integrity of the archive, sha256 of the binary.
var digests = map[[2]string][2]string{
	{"0.149.0", "linux-x64"}: {
		"sha512-uZXaN9JPxu0/jjnqqJeTd4kRYPnjVZK3MiVndfG1mHhEaoDKL7ScWHfPqvAEOjwsSDEmQSlMfUkmvYp/CHciYw==",
		"bbc3341e44c9ead340ed9570c17be936e37870f570751a941699ffd04d672827",
	},
	{"0.171.0", "linux-x64"}: {
		"sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
		"b76a027d6b210f9a8da7aaf321dd235c700f0ef7a794d4a5314b9af6c134f0f0",
	},
}

func pinFor(version, goos, goarch string) (pin, error) {
	p, ok := platforms[goos+"/"+goarch]
	if !ok {
		return pin{}, fmt.Errorf("no Codex package is known for %s/%s; use Linux or macOS on x64 or arm64", goos, goarch)
	}
	if !slices.Contains(versions, version) {
		return pin{}, fmt.Errorf("Codex %q is not pinned; choose one of %s", version, strings.Join(versions, ", "))
	}
	p.version = version
	measured := digests[[2]string{version, p.platform}]
	p.integrity, p.sha256 = measured[0], measured[1]
	return p, nil
}

// spec is the package as npm is asked for it.
func (p pin) spec() string { return "@openai/codex@" + p.version + "-" + p.platform }

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
