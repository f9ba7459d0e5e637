package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Artifact is a file that somebody made below a folder.
type Artifact struct {
	SHA256    string // lower-case hexadecimal
	Size      int64  // bytes
	MediaType string // by its first bytes, as net/http finds it
}

// MaxArtifact bounds a file that is hashed as evidence, in bytes.
const MaxArtifact = 1 << 30

// ReadArtifact reads a regular file below dir by a relative path with slashes,
// through no symbolic link. Its errors say what is wrong with the path in words
// that go after its name.
func ReadArtifact(dir, relative string) (*Artifact, error) {
	clean := path.Clean(relative)
	switch {
	case relative == "" || strings.ContainsRune(relative, 0) || !utf8.ValidString(relative):
		return nil, errors.New("is no path")
	case path.IsAbs(relative) || clean == ".." || strings.HasPrefix(clean, "../"):
		return nil, errors.New("escapes delegated cwd")
	case clean == ".":
		return nil, errIrregular
	}
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	parent, name, err := t.parent(clean)
	if err != nil {
		return nil, artifactError(err)
	}
	defer func() { _ = parent.Close() }()
	f, st, err := openRegular(parent, name)
	if err != nil {
		return nil, artifactError(err)
	}
	defer func() { _ = f.Close() }()
	if st.Size > MaxArtifact {
		return nil, errors.New("is larger than 1 GiB")
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(head[:n])
	more, err := io.Copy(sum, io.LimitReader(f, MaxArtifact))
	if err != nil {
		return nil, err
	}
	return &Artifact{SHA256: hex.EncodeToString(sum.Sum(nil)), Size: int64(n) + more, MediaType: http.DetectContentType(head[:n])}, nil
}

var errIrregular = errors.New("is not a regular file")

// artifactError puts a refusal into words; paths of ours stay out.
func artifactError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("is not a regular file: there is none")
	case errors.Is(err, errNotRegular), errors.Is(err, errBlocked), errors.Is(err, unix.ELOOP):
		return errIrregular
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
