package cpython

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spanflame/spanflame/internal/proc"
)

// nameVersion finds the version in a file name such as libpython3.9.so.1.0.
var nameVersion = regexp.MustCompile(`python(\d)\.(\d+)`)

// Locate finds the interpreter in a process: [ErrNotPython],
// [ErrUnsupported], or what proc returns.
func Locate(p *proc.Process) (Image, error) {
	mappings, err := p.Mappings()
	if err != nil {
		return Image{}, err
	}
	exe, err := p.Link("exe")
	if err != nil {
		return Image{}, err
	}
	failed := ErrNotPython
	for _, m := range candidates(mappings, exe) {
		file, err := p.OpenImage(m)
		if err != nil {
			continue // not an ELF file, or not ours to read
		}
		image, err := inspect(file)
		file.Close()
		if err == nil {
			return image, nil
		}
		if !errors.Is(err, proc.ErrNoSymbol) {
			failed = err
		}
	}
	return Image{}, failed
}

// candidates are the files that may hold an interpreter, each once, at the
// mapping with its lowest offset: the executable, then what is named after
// libpython.
func candidates(mappings []proc.Mapping, exe string) []proc.Mapping {
	var first, rest []proc.Mapping
	seen := map[string]bool{}
	for _, m := range mappings {
		if m.Path == "" || seen[m.Path] {
			continue
		}
		switch {
		case m.Path == exe:
			first = append(first, m)
		case strings.Contains(filepath.Base(m.Path), "libpython"), strings.Contains(filepath.Base(m.Path), "libpypy"):
			rest = append(rest, m)
		default:
			continue
		}
		seen[m.Path] = true
	}
	return append(first, rest...)
}

// inspect reads what an ELF file says about the interpreter in it.
func inspect(file *proc.Image) (Image, error) {
	image := Image{Path: file.Path}
	var err error
	if image.Runtime, err = file.Symbol("_PyRuntime"); err != nil {
		if _, pypy := file.Symbol("pypy_main_startup"); pypy == nil {
			return image, fmt.Errorf("PyPy is %w, CPython %s are", ErrUnsupported, Supported)
		}
		// CPython had no _PyRuntime up to 3.6.
		if _, old := file.Symbol("Py_Initialize"); old == nil {
			if image.Version, err = versionOf(file); err == nil {
				_, err = layoutOf(image.Version)
			}
		}
		return image, err
	}
	if image.Version, err = versionOf(file); err != nil {
		return image, err
	}
	if _, err := layoutOf(image.Version); err != nil {
		return image, err
	}
	for name, addr := range map[string]*uint64{
		"_Py_NoneStruct": &image.None,
		"PyCode_Type":    &image.CodeType,
		"PyUnicode_Type": &image.StrType,
	} {
		if *addr, err = file.Symbol(name); err != nil {
			return image, err
		}
	}
	return image, nil
}

// versionOf reads the constant Py_Version (3.11 and later), else the name.
func versionOf(file *proc.Image) (Version, error) {
	var hex [8]byte
	if err := file.ReadConst("Py_Version", hex[:]); err == nil {
		return versionFromHex(binary.LittleEndian.Uint64(hex[:])), nil
	}
	match := nameVersion.FindStringSubmatch(filepath.Base(file.Path))
	if match == nil {
		return Version{}, fmt.Errorf("the CPython in %s, of unknown version, is %w", file.Path, ErrUnsupported)
	}
	major, _ := strconv.Atoi(match[1])
	minor, err := strconv.Atoi(match[2])
	return Version{major, minor, -1}, err
}
