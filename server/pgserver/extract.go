package pgserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	packageRoot  = "package/"        // of every npm package
	nativeRoot   = "package/native/" // what is PostgreSQL
	symlinksName = "pg-symlinks.json"

	largestBuild = 1 << 30
	mostEntries  = 20000
)

// extract unpacks the native part of a package into the new directory dir and
// makes the symbolic links that npm leaves out. An archive with anything that
// could reach beyond dir, or that is no plain file or directory, is refused
// whole; dir may then be partly filled.
func extract(pkg []byte, dir string) error {
	// Modes are set below whatever the umask is: another user runs the programs.
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	unzipped, err := gzip.NewReader(bytes.NewReader(pkg))
	if err != nil {
		return err
	}
	left := int64(largestBuild)
	archive := tar.NewReader(unzipped)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if entries >= mostEntries {
			return errors.New("the archive has too many entries")
		}
		name, err := entryName(header)
		if err != nil {
			return err
		}
		name, native := strings.CutPrefix(name, nativeRoot)
		if !native || header.Typeflag == tar.TypeDir {
			continue
		}
		if left -= header.Size; left < 0 {
			return errors.New("the archive is too large")
		}
		mode := fs.FileMode(0o644)
		if header.Mode&0o111 != 0 {
			mode = 0o755
		}
		if err := writeEntry(root, name, mode, archive); err != nil {
			return err
		}
	}
	return restoreSymlinks(root)
}

// entryName returns the name of an archive's entry if that may be unpacked.
func entryName(header *tar.Header) (string, error) {
	name := header.Name
	switch header.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		name = strings.TrimSuffix(name, "/")
	default:
		return "", fmt.Errorf("%q is neither a file nor a directory", name)
	}
	if !filepath.IsLocal(name) || path.Clean(name) != name || strings.ContainsAny(name, "\\\x00") {
		return "", fmt.Errorf("%q is not a plain relative path", name)
	}
	if !strings.HasPrefix(name+"/", packageRoot) {
		return "", fmt.Errorf("%q lies outside of %s", name, packageRoot)
	}
	return name, nil
}

func writeEntry(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := makeParents(root, name); err != nil {
		return err
	}
	// A child forked by another goroutine would have the file open for writing
	// until it execs, and a program open for writing cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

func makeParents(root *os.Root, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		err := root.Mkdir(name[:i], 0o755)
		if err == nil {
			err = root.Chmod(name[:i], 0o755)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// restoreSymlinks makes the links that the package lists: without them the
// server does not find its libraries.
func restoreSymlinks(root *os.Root) error {
	text, err := root.ReadFile(symlinksName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("reading %s: %w", symlinksName, err)
	}
	for _, link := range links {
		var names [2]string
		for i, name := range []string{link.Source, link.Target} {
			local, ok := strings.CutPrefix(name, strings.TrimPrefix(nativeRoot, packageRoot))
			if !ok || !filepath.IsLocal(local) || path.Clean(local) != local || strings.ContainsAny(local, "\\\x00") {
				return fmt.Errorf("%s: %q is not a plain path within the package", symlinksName, name)
			}
			names[i] = local
		}
		source, target := names[0], names[1]
		if info, err := root.Lstat(source); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s: %q is not a file of the package", symlinksName, link.Source)
		}
		to, err := filepath.Rel(path.Dir(target), source)
		if err != nil {
			return err
		}
		if err := makeParents(root, target); err != nil {
			return err
		}
		if err := root.Symlink(to, target); err != nil {
			return err
		}
	}
	return nil
}
