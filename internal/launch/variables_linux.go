package launch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// findArray returns the one array of words in our variables that holds value
// at index and only 0 and 1 elsewhere.
func findArray(value uint64, index int) (array [signalCount]uint64, err error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return array, err
	}
	defer memory.Close()
	segments, err := variables(memory)
	if err != nil {
		return array, err
	}
	needle := binary.NativeEndian.AppendUint64(nil, value)
	matches := 0
	for _, r := range segments {
		data := make([]byte, r.size)
		if _, err := memory.ReadAt(data, int64(r.start)); err != nil {
			return array, err
		}
		for at := 0; ; at += len(needle) {
			next := bytes.Index(data[at:], needle)
			if next < 0 {
				break
			}
			at += next
			if candidate, ok := arrayAt(data, at-8*index, index); ok {
				array = candidate
				matches++
			}
		}
	}
	if matches != 1 {
		return array, fmt.Errorf("%d places look like runtime.fwdSig", matches)
	}
	return array, nil
}

func arrayAt(data []byte, start, except int) (array [signalCount]uint64, ok bool) {
	if start < 0 || start+8*signalCount > len(data) {
		return array, false
	}
	for i := range array {
		array[i] = binary.NativeEndian.Uint64(data[start+8*i:])
		if i != except && array[i] > sigIgn {
			return array, false
		}
	}
	return array, true
}

// Keys of the auxiliary vector: AT_PHDR and AT_PHNUM of elf.h.
const (
	auxHeaders = 3
	auxCount   = 5
)

// segment is a piece of our memory, in bytes.
type segment struct{ start, size uint64 }

// variables are the writable segments of our executable, .bss included, by
// the program headers (elf.h) that the kernel showed us at the start; of them
// those pages that were ever written, and their neighbours. The runtime's map
// of the heap is in .bss, 32 MiB that are hardly used.
func variables(memory io.ReaderAt) (list []segment, err error) {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return nil, err
	}
	var headers, count uint64
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		value := binary.NativeEndian.Uint64(auxv[8:])
		switch binary.NativeEndian.Uint64(auxv) {
		case auxHeaders:
			headers = value
		case auxCount:
			count = value
		}
	}
	programs := make([]elf.Prog64, min(count, 64))
	table := io.NewSectionReader(memory, int64(headers), int64(binary.Size(programs)))
	if err := binary.Read(table, binary.NativeEndian, programs); err != nil {
		return nil, fmt.Errorf("read our program headers: %w", err)
	}
	base := uint64(0) // where a position-independent executable is
	for _, p := range programs {
		switch {
		case elf.ProgType(p.Type) == elf.PT_PHDR:
			base = headers - p.Vaddr
		case elf.ProgType(p.Type) == elf.PT_LOAD && elf.ProgFlag(p.Flags)&elf.PF_W != 0:
			used, err := pages(segment{base + p.Vaddr, p.Memsz})
			if err != nil {
				return nil, err
			}
			list = append(list, used...)
		}
	}
	return list, nil
}

// pages returns the parts of s that are in memory or swapped out, by
// /proc/self/pagemap (proc(5)), each with half a page around it: an array may
// go on in a page that nobody wrote to.
func pages(s segment) (list []segment, err error) {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	defer pagemap.Close()
	const known = 1<<63 | 1<<62 // present, swapped
	size := uint64(unix.Getpagesize())
	first, end := s.start/size, (s.start+s.size+size-1)/size
	entries := make([]uint64, end-first)
	if err := binary.Read(io.NewSectionReader(pagemap, int64(first*8), int64(len(entries)*8)), binary.NativeEndian, entries); err != nil {
		return nil, fmt.Errorf("read our page map: %w", err)
	}
	last := uint64(0) // end of the last part
	for i, entry := range entries {
		if entry&known == 0 {
			continue
		}
		page := (first + uint64(i)) * size
		from, to := max(page-size/2, s.start), min(page+size+size/2, s.start+s.size)
		if from <= last {
			list[len(list)-1].size += to - last
		} else {
			list = append(list, segment{from, to - from})
		}
		last = to
	}
	return list, nil
}
