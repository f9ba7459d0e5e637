package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core/codexbin"
)

// remedyCodex is what to do about a Codex that does not say so itself.
const remedyCodex = "run `make codex`, or set " + codexbin.BinaryVar

// findCodex finds the Codex that a session would use and has the gate judge
// it.
func (p *patient) findCodex(ctx context.Context) outcome {
	defer close(p.codex)
	cache := codexbin.CacheDirs(p.Getenv)
	path, err := codexbin.Find(p.Getenv, p.ground().settings.CodexBin, cache)
	if err != nil {
		return outcome{findings: append(
			[]Finding{found(groupCodex, "binary", Failed, err, remedyCodex), notChecked(groupCodex, "gate", "Codex")},
			p.fetchHints()...,
		)}
	}
	binary := finding(groupCodex, "binary", OK, fmt.Sprintf("native, %s, found by %s", path, p.source(path, cache)))
	opts := &codexbin.GateOptions{Policy: p.ground().settings.CodexVersions}
	if p.ground().err == nil {
		opts.CacheDir = filepath.Join(p.ground().State, "codex") // where sessions look too
	}
	pin, err := codexbin.Gate(ctx, path, opts)
	if err != nil {
		gate := found(groupCodex, "gate", Failed, err, remedyCodex)
		if ctx.Err() != nil {
			gate.Reason = fmt.Sprintf("%s could not be examined in the time that is allowed: %v", path, err)
			gate.Remedy = remedyTime
		}
		return outcome{findings: []Finding{binary, gate}}
	}
	p.codex <- pin
	gate := finding(groupCodex, "gate", OK, fmt.Sprintf("version %s, %s, sha256 %s, schema %s", pin.Version, pin.Verdict, pin.SHA256, pin.SchemaSHA256))
	admitted := &Codex{Path: pin.Path, SHA256: pin.SHA256, Version: pin.Version, SchemaSHA256: pin.SchemaSHA256, Verdict: pin.Verdict}
	return outcome{findings: []Finding{binary, gate}, codex: admitted}
}

// source says how the binary was found, in the order of codexbin.Find.
func (p *patient) source(path string, cache []string) string {
	if p.Getenv(codexbin.BinaryVar) != "" {
		return codexbin.BinaryVar
	}
	if p.ground().settings.CodexBin != "" {
		return "the setting codex_bin"
	}
	for _, dir := range cache {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "codex")); err == nil && real == path {
			return "the cache of `make codex`"
		}
	}
	return "PATH"
}

// fetchHints tells whether `make codex` could fetch one.
func (p *patient) fetchHints() []Finding {
	var list []Finding
	for _, name := range []string{"node", "npm"} {
		f := finding(groupCodex, name, OK, "")
		if f.Reason = onPath(p.Getenv("PATH"), name); f.Reason == "" {
			f.Verdict, f.Reason, f.Remedy = Warning, name+" is not on PATH; `make codex` fetches Codex with it", "install "+name
		}
		list = append(list, f)
	}
	return list
}
