package cpython

import "fmt"

// layout is where the fields that are read lie, in bytes, in one minor version
// of CPython. The numbers come from that version's headers (offsetof) and were
// compared with live processes.
type layout struct {
	interpretersHead uint64 // _PyRuntime.interpreters.head
	interpNext       uint64
	interpThreads    uint64 // threads: next_unique_id, head, count
	threadsHead      uint64 // in threads
	threadsSize      uint64
	interpModules    uint64 // sys.modules
	gil              uint64 // pointer to the GIL, in the interpreter; 0: it is in _PyRuntime
	gilHolder        uint64 // last_holder, in the GIL or in _PyRuntime
	gilLocked        uint64 // int, after it

	thread  threadLayout
	frame   frameLayout
	code    codeLayout
	str     strLayout
	dict    dictLayout
	typ     typeLayout
	context contextLayout

	tupleItems uint64
	bytesData  uint64
	intSize    uint64 // count of digits, and the sign
	intTagged  bool   // the sign is in the lowest bits, the count above them (3.12)
	intDigits  uint64 // 30 bits each

	lines lineFormat

	// What the interpreter has to say of itself at _PyRuntime, by the number of
	// the word in _Py_DebugOffsets (3.13).
	published func(*layout) map[int]uint64
}

type threadLayout struct {
	next, interp    uint64
	ident, nativeID uint64
	context         uint64
	current         uint64 // pointer to the current frame (3.13); 0: it is in the C frame
	cframe          uint64 // pointer to the C frame of the innermost eval loop
	cframeCurrent   uint64 // in which its current frame is
	rootCframe      uint64 // the C frame outside of any eval loop
	chunk, stackTop uint64 // of the data stack
	size            uint64 // what is read of a thread state
	chunkPrevious   uint64
	chunkSize       uint64
	chunkTop        uint64 // words in use, once it is not the last chunk
	chunkHeader     uint64
	chunkBase       uint64 // what the oldest chunk leaves unused after it
}

type frameLayout struct {
	code, previous, instr uint64
	stackTop              uint64 // int32: -1 while the frame runs
	entry                 uint64 // bool: first frame of its eval loop; 0: below that is a trampoline
	owner                 uint64
	size                  uint64 // without locals
}

type codeLayout struct {
	stackSize, firstLine, localsPlus    uint64 // int32
	globals, locals                     uint64 // tuples of the names it uses
	fileName, name, qualName, lineTable uint64
	firstTraceable                      uint64 // int32, in instructions; 0: not there
	bytecode                            uint64
	stampFrom, stampTo                  uint64 // what tells one code object from another
	size                                uint64
}

type strLayout struct {
	length, state        uint64
	asciiData, otherData uint64
	kindShift, kindMask  uint32
	compactBit, asciiBit uint32
}

type dictLayout struct {
	used                       uint64
	keys, values               uint64
	log2Size, log2Index, kind  uint64 // bytes in the keys object
	entries                    uint64 // count of used entries
	header                     uint64
	generalEntry, unicodeEntry uint64 // sizes
	valuesHeader               uint64 // of PyDictValues
}

type typeLayout struct {
	name, flags, dictOffset uint64
	cachedKeys              uint64
	basicSize               uint64
	managedDictBit          uint
	inlineBit               uint // the type's objects have inlineValues
	attributes              attributes
}

// attributes is how a version keeps the attributes of an object whose type
// manages them: in an array of values, or in a dict (pycore_object.h).
type attributes uint8

const (
	twoPointers  attributes = iota // 3.11: to the values and to the dict
	taggedWord                     // 3.12: to either; bit 0 tells values
	inlineValues                   // 3.13: to the dict, else the values follow the object
)

// before is how far before the object its pointers lie.
func (a attributes) before() uint64 {
	if a == twoPointers {
		return 32
	}
	return 24
}

type contextLayout struct {
	vars        uint64 // PyContext.ctx_vars
	varHash     uint64 // ContextVar.var_hash
	hamtRoot    uint64
	bitmap      uint64
	bitmapArray uint64
	array       uint64
	collision   uint64
}

// Bounds of what is followed in another process's memory.
const (
	maxInterpreters = 256
	maxThreads      = 20_000
	maxFrames       = 50_000
	maxTries        = 24 // readings for one sample
	maxChunks       = 512
	maxChunkSize    = 16 << 20
	maxDataStack    = 32 << 20 // all chunks of a thread
	maxOutside      = 512      // frames of one stack that are not on the data stack
	maxCollisions   = 64
	maxEntries      = 1 << 16 // of a dict
	maxRunes        = 4096    // of a string
	maxLineTable    = 1 << 20
	maxLines        = 1 << 16  // known of one code object
	maxCodes        = 200_000  // known at a time
	maxKnown        = 64 << 20 // bytes of them
	maxProof        = 64 << 10
)

// Offsets that all versions share.
const (
	objectType = 8  // PyObject.ob_type
	varSize    = 16 // PyVarObject.ob_size
)

// Supported says which versions of CPython can be read.
const Supported = "3.11 to 3.13"

// layoutOf returns the layout of a version: [ErrUnsupported].
func layoutOf(v Version) (*layout, error) {
	switch {
	case v[0] == 3 && v[1] == 11:
		return &layout311, nil
	case v[0] == 3 && v[1] == 12:
		return &layout312, nil
	case v[0] == 3 && v[1] == 13:
		return &layout313, nil
	}
	return nil, fmt.Errorf("CPython %s is %w yet, %s are", v, ErrUnsupported, Supported)
}
