package shim

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spanflame/spanflame/python"
)

// Install extracts the shim into a directory for PYTHONPATH and returns it.
// The directory is named after its content, shared by all runs and verified
// before each use.
func Install() (dir string, err error) {
	var failures []error
	for _, base := range candidates() {
		dir, err := installUnder(base)
		if err == nil {
			return dir, nil
		}
		failures = append(failures, err)
	}
	return "", fmt.Errorf("no place for the Python shim: %w", errors.Join(failures...))
}

// candidates are places for the shim, best first. A user's cache outlives the
// session, unlike XDG_RUNTIME_DIR, and nobody tidies it up, unlike /tmp.
func candidates() []string {
	uid := strconv.Itoa(os.Geteuid())
	var list []string
	if cache, err := os.UserCacheDir(); err == nil {
		list = append(list, filepath.Join(cache, "spanflame"))
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		list = append(list, filepath.Join(runtime, "spanflame"))
	}
	return append(list,
		filepath.Join(os.TempDir(), "spanflame-"+uid),
		filepath.Join("/dev/shm", "spanflame-"+uid))
}

func installUnder(base string) (string, error) {
	content, sum, err := shimFiles()
	if err != nil {
		return "", err
	}
	if strings.Contains(base, ":") {
		return "", fmt.Errorf("%s: a colon would split PYTHONPATH", base)
	}
	if err := makeBase(base); err != nil {
		return "", err
	}
	dir := filepath.Join(base, "shim-"+sum)
	if verify(dir, content) == nil {
		return dir, nil
	}
	temp, err := os.MkdirTemp(base, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := writeFiles(temp, content); err != nil {
		return "", err
	}
	// What is there lost files to a tidier, or another run was faster.
	if err := os.Rename(temp, dir); err != nil && verify(dir, content) != nil {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
		if err := os.Rename(temp, dir); err != nil && verify(dir, content) != nil {
			return "", err
		}
	}
	return dir, verify(dir, content)
}

// shimFiles returns the shim's files and a short name for their content.
func shimFiles() (content map[string][]byte, sum string, err error) {
	content = map[string][]byte{}
	hash := sha256.New()
	err = python.Files(func(name string, data []byte) error {
		content[name] = data
		fmt.Fprintf(hash, "%q %d\n", name, len(data))
		hash.Write(data)
		return nil
	})
	return content, fmt.Sprintf("%x", hash.Sum(nil)[:8]), err
}

// makeBase makes a directory that nobody else can write to or put another in
// the place of. Root's must be open to all, since a target may drop root.
func makeBase(base string) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(base, 0o755); err == nil {
		err = os.Chmod(base, 0o755) // whatever the umask
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := checkOwned(base, fs.ModeDir); err != nil {
		return err
	}
	for dir := filepath.Dir(base); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("%s: writable by all", dir)
		}
		if os.Geteuid() == 0 && info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s: closed to targets that drop root", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func writeFiles(dir string, content map[string][]byte) error {
	for name, data := range content {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// verify checks owners, permissions and bytes. Further files (__pycache__) are
// only what the owner put there.
func verify(dir string, content map[string][]byte) error {
	if err := checkOwned(dir, fs.ModeDir); err != nil {
		return err
	}
	for name, want := range content {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := checkOwned(filepath.Dir(path), fs.ModeDir); err != nil {
			return err
		}
		if err := checkOwned(path, 0); err != nil {
			return err
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			return errors.Join(fmt.Errorf("%s: not what it should be", path), err)
		}
	}
	return nil
}

// checkOwned accepts what is of the given type (no link), ours or root's, and
// not for others to write.
func checkOwned(path string, want fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid, err := ownerOf(info)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() != want:
		return fmt.Errorf("%s: is %s", path, info.Mode())
	case uid != 0 && uid != os.Geteuid():
		return fmt.Errorf("%s: belongs to uid %d", path, uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: writable by others", path)
	case os.Geteuid() == 0 && info.Mode().Perm()&0o004 == 0:
		return fmt.Errorf("%s: closed to targets that drop root", path)
	}
	return nil
}

// Environ returns env with the shim's directory first on PYTHONPATH and the
// agent's address set.
func Environ(env []string, dir, socket, token string) []string {
	path := []string{dir}
	out := make([]string, 0, len(env)+3)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "SPANFLAME_SOCKET", "SPANFLAME_TOKEN":
		case "PYTHONPATH":
			// An empty value adds nothing, but an empty entry is the current directory.
			path = path[:1]
			if value != "" {
				for _, old := range strings.Split(value, ":") {
					if old != dir {
						path = append(path, old)
					}
				}
			}
		default:
			out = append(out, entry)
		}
	}
	return append(out,
		"PYTHONPATH="+strings.Join(path, ":"),
		"SPANFLAME_SOCKET="+socket,
		"SPANFLAME_TOKEN="+token)
}
