// Package python carries the Python shim in the Go binary.
package python

import (
	"embed"
	"io/fs"
)

//go:embed path/sitecustomize.py path/*.dist-info/* spanflame/*.py
var files embed.FS

// Files calls visit for each file, with its name below the directory that goes
// on PYTHONPATH.
func Files(visit func(name string, content []byte) error) error {
	for _, root := range []struct{ dir, as string }{{"path", ""}, {"spanflame", "spanflame/"}} {
		sub, err := fs.Sub(files, root.dir)
		if err != nil {
			return err
		}
		err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := fs.ReadFile(sub, name)
			if err != nil {
				return err
			}
			return visit(root.as+name, content)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
