package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxUnpacked bounds what an archive may unpack to, in bytes; the pinned one
// holds about 320 MB.
const maxUnpacked = 2 << 30

// unpack writes the regular files of a gzipped tar below prefix into dir.
// Names that would leave dir and files that are neither regular nor folders
// are refused.
func unpack(archive, prefix, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	entries := tar.NewReader(io.LimitReader(unzipped, maxUnpacked))
	found := false
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(header.Name, prefix)
		if !ok || header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(name) {
			return fmt.Errorf("entry %q is not a plain file below %s", header.Name, prefix)
		}
		if err := writeEntry(filepath.Join(dir, name), header.FileInfo().Mode(), entries); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("nothing lies below %s", prefix)
	}
	return nil
}

func writeEntry(path string, mode os.FileMode, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	perm := os.FileMode(0o600)
	if mode&0o111 != 0 {
		perm = 0o700
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
