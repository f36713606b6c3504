package internal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/spanflame/spanflame"

// floors is the layout of docs/architecture.md: a package imports only from
// lower floors. A name stands for the package and what is below its folder.
var floors = map[string]int{
	"profile": 0,
	"python":  0,

	"internal/config": 1,
	"internal/encode": 1,
	"internal/launch": 1,
	"internal/proc":   1,
	"internal/report": 1,

	"internal/cpython":   2,
	"internal/export":    2,
	"internal/goruntime": 2,
	"internal/shim":      2,
	"internal/store":     2,

	".":               3,
	"internal/agent":  3,
	"internal/viewer": 3,

	"cmd/spanflame": 4,

	"demo":    5,
	"scripts": 5,
	"test":    5,

	// This package: nothing but this test.
	"internal": 5,
}

// family returns the name in floors that pkg, a path within the module,
// belongs to.
func family(pkg string) (name string, ok bool) {
	for name = pkg; ; name = name[:strings.LastIndexByte(name, '/')] {
		if _, ok := floors[name]; ok && (name != "internal" || pkg == name) {
			return name, true
		}
		if !strings.Contains(name, "/") {
			return "", false
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
}

// packages returns the imports within the module of each of its packages.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	within := func(path string) (string, bool) {
		if path == module {
			return ".", true
		}
		return strings.CutPrefix(path, module+"/")
	}
	all := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		name, ok := within(p.ImportPath)
		if !ok {
			t.Fatalf("go list printed %q, which is not in the module", p.ImportPath)
		}
		all[name] = []string{}
		for _, path := range p.Imports {
			if imported, ok := within(path); ok {
				all[name] = append(all[name], imported)
			}
		}
	}
}

func TestImportsGoDown(t *testing.T) {
	all := packages(t)
	if len(all) < 3 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	for pkg, imports := range all {
		name, ok := family(pkg)
		if !ok {
			t.Errorf("%s is on no floor: give it one here and in docs/architecture.md", pkg)
			continue
		}
		for _, imported := range imports {
			theirs, ok := family(imported)
			if !ok {
				continue // reported above
			}
			down := floors[theirs] < floors[name]
			parent := strings.HasPrefix(pkg, imported+"/")
			if !down && !parent {
				t.Errorf("%s (floor %d) imports %s (floor %d)", pkg, floors[name], imported, floors[theirs])
			}
		}
	}
}

// The Go SDK is linked into other people's programs, which want no Python in
// them.
func TestSDKCarriesNoPython(t *testing.T) {
	all := packages(t)
	seen := map[string]bool{}
	var visit func(pkg string, path []string)
	visit = func(pkg string, path []string) {
		path = append(path, pkg)
		if pkg == "python" {
			t.Errorf("the root package imports python by %s", strings.Join(path, " → "))
		}
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, imported := range all[pkg] {
			visit(imported, path)
		}
	}
	visit(".", nil)
}

func TestArchitectureNamesEveryFloor(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range floors {
		if strings.Contains(name, "/") && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/architecture.md does not name %s", name)
		}
	}
}
