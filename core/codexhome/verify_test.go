package codexhome_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// damage is how a file can be made another; each is undone by writing the home
// again.
var damage = map[string]func(t *testing.T, path string){
	"changed": func(t *testing.T, path string) { plant(t, filepath.Dir(path), filepath.Base(path), read(t, path)+" ") },
	"gone": func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	},
	"a link to the same": func(t *testing.T, path string) {
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path+".moved", path); err != nil {
			t.Fatal(err)
		}
	},
}

// A model catalogue that is not what was written is refused; a home without one
// has nothing to check.
//
// Spec: R034
func TestVerifyCatalog(t *testing.T) {
	spec := specOf(testkit.NewPlace(t), hybrid(), "lead")
	home := write(t, spec)
	if err := codexhome.VerifyCatalog(home.CatalogPath, home.CatalogSHA256); err != nil {
		t.Errorf("VerifyCatalog = %v, want what was written accepted", err)
	}
	if err := codexhome.VerifyCatalog("", ""); err != nil {
		t.Errorf("VerifyCatalog of none = %v", err)
	}
	for how, do := range damage {
		write(t, spec)
		do(t, home.CatalogPath)
		err := codexhome.VerifyCatalog(home.CatalogPath, home.CatalogSHA256)
		if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "model catalog failed integrity") || !strings.Contains(err.Error(), home.CatalogPath) {
			t.Errorf("%s: VerifyCatalog = %v, want its integrity refused by path", how, err)
		}
	}
}

// The role files of native agents must be those that were recorded, no more and
// no fewer.
//
// Spec: A030
func TestVerifyNatives(t *testing.T) {
	spec := specOf(testkit.NewPlace(t), hybrid(), "lead")
	home := write(t, spec)
	if err := codexhome.VerifyNatives(home.NativeAgentFiles, home.NativeAgentSHA256); err != nil {
		t.Errorf("VerifyNatives = %v, want what was written accepted", err)
	}
	refused := func(how string, files, digests map[string]string) {
		t.Helper()
		err := codexhome.VerifyNatives(files, digests)
		if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "native capabilities disagree") || !strings.Contains(err.Error(), "agent scout") {
			t.Errorf("%s: VerifyNatives = %v, want the agent named", how, err)
		}
	}
	refused("no digest", home.NativeAgentFiles, nil)
	refused("no file", nil, home.NativeAgentSHA256)
	for how, do := range damage {
		write(t, spec)
		do(t, home.NativeAgentFiles["scout"])
		refused(how, home.NativeAgentFiles, home.NativeAgentSHA256)
	}
}
