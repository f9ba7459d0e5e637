package codexhome

import (
	"maps"
	"os"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxVerified bounds a file that is verified, in bytes: what was written is
// smaller.
const maxVerified = 16 << 20

// VerifyCatalog checks that a home's model catalogue still is what was written:
// it decides what Codex believes of the model. An empty path is of a home that
// has none.
func VerifyCatalog(path, sha256 string) error {
	if path == "" || isStill(path, sha256) {
		return nil
	}
	return core.Errorf(core.KindRuntime, "model catalog failed integrity validation: %s is not what was written", path).
		WithRemedy("find out who changed it; a new session gets a new one")
}

// VerifyNatives checks that the role files of a home's native agents, by agent,
// still are those that were written: they say what each native may do.
func VerifyNatives(files, sha256 map[string]string) error {
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if !isStill(files[id], sha256[id]) {
			return core.Errorf(core.KindRuntime, "native capabilities disagree: the role file %s of agent %s is not what was written", files[id], id).
				WithRemedy("find out who changed it; a new session gets a new one")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sha256)) {
		if _, ok := files[id]; !ok {
			return core.Errorf(core.KindRuntime, "native capabilities disagree: agent %s was recorded and has no role file", id).
				WithRemedy("a new session gets what its profile says")
		}
	}
	return nil
}

// isStill reports whether a regular file holds what has the digest.
func isStill(path, sha256 string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxVerified {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && digest(data) == sha256
}
