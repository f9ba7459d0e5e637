package workspace_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/contract"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestDeclaredArtifacts: a file that a result declares is a regular one below
// the agent's folder, reached through no link, with the hash that the result
// says; of one that is not so there is no identity at all.
//
// Spec: A057
func TestDeclaredArtifacts(t *testing.T) {
	t.Parallel()
	top := testkit.PrivateDir(t)
	dir := filepath.Join(top, "work")
	image := "\x89PNG\r\n\x1a\n rest"
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub"), 0o700),
		os.WriteFile(filepath.Join(dir, "sub", "shot.png"), []byte(image), 0o600),
		os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600),
		os.WriteFile(filepath.Join(top, "outside"), []byte("secret"), 0o600),
		os.Symlink(filepath.Join(top, "outside"), filepath.Join(dir, "link")),
		os.Symlink("sub", filepath.Join(dir, "folder")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	evidence := contract.Evidence{Artifact: func(relative string) (*contract.Artifact, error) {
		a, err := workspace.ReadArtifact(dir, relative)
		if err != nil {
			return nil, err
		}
		return &contract.Artifact{RelativePath: relative, SHA256: a.SHA256, Size: a.Size, MediaType: a.MediaType}, nil
	}}
	c, err := contract.Compile([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	good := `{"relative_path":"sub/shot.png","sha256":"` + sum(image) + `"}`
	png := contract.Artifact{RelativePath: "sub/shot.png", SHA256: sum(image), Size: int64(len(image)), MediaType: "image/png"}
	irregular := " is not a regular file"
	for _, tt := range []struct {
		artifacts, images string
		want              []contract.Artifact
		errs              []string
	}{
		{"", good, []contract.Artifact{png}, nil},
		{
			`{"relative_path":"empty","sha256":"` + sum("") + `"}`, good,
			[]contract.Artifact{{RelativePath: "empty", SHA256: sum(""), MediaType: "text/plain; charset=utf-8"}, png},
			nil,
		},
		{
			`{"relative_path":"sub/shot.png","sha256":"` + sum("x") + `"}`, good, nil,
			[]string{`/artifacts/0: "sub/shot.png" hash does not match: the file has ` + sum(image) + `, the result says "` + sum("x") + `"`},
		},
		{"", `{"relative_path":"empty","sha256":"` + sum("") + `"}`, nil, []string{`/image_artifacts/0: "empty" is no image: its media type is text/plain; charset=utf-8`}},
		{`{"relative_path":"../outside","sha256":""}`, good, nil, []string{`/artifacts/0: "../outside" escapes delegated cwd`}},
		{`{"relative_path":"` + top + `/outside","sha256":""}`, "", nil, []string{`/artifacts/0: "` + top + `/outside" escapes delegated cwd`}},
		{`{"relative_path":"sub/../../outside","sha256":""}`, "", nil, []string{`/artifacts/0: "sub/../../outside" escapes delegated cwd`}},
		{`{"relative_path":"link","sha256":""}`, "", nil, []string{`/artifacts/0: "link"` + irregular}},
		{`{"relative_path":"folder/shot.png","sha256":""}`, "", nil, []string{`/artifacts/0: "folder/shot.png"` + irregular}},
		{`{"relative_path":"fifo","sha256":""}`, "", nil, []string{`/artifacts/0: "fifo"` + irregular}},
		{`{"relative_path":"sub","sha256":""}`, "", nil, []string{`/artifacts/0: "sub"` + irregular}},
		{`{"relative_path":".","sha256":""}`, "", nil, []string{`/artifacts/0: "."` + irregular}},
		{`{"relative_path":"none/x","sha256":""}`, "", nil, []string{`/artifacts/0: "none/x"` + irregular + ": there is none"}},
		{`{"relative_path":"","sha256":""}`, "", nil, []string{`/artifacts/0: "" is no path`}},
	} {
		v, errs := c.Read(`{"artifacts":[` + tt.artifacts + `],"image_artifacts":[` + tt.images + `]}`)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		got, errs := v.Correlate(evidence)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.artifacts, tt.images, diff)
		}
		if diff := cmp.Diff(tt.errs, errs); diff != "" {
			t.Errorf("%s %s: errors (-want +got):\n%s", tt.artifacts, tt.images, diff)
		}
	}
}
