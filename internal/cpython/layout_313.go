package cpython

// CPython 3.13: Include/internal/pycore_{runtime,interp,gil,frame,code,dict,
// long,hamt,context}.h, Include/cpython/pystate.h. Of 3.13.0 and 3.13.5 with the GIL.
var layout313 = layout{
	interpretersHead: 632,
	interpNext:       7264,
	interpThreads:    7336,
	threadsHead:      8,
	threadsSize:      32,
	interpModules:    7656,
	gil:              16,
	gilHolder:        8,
	gilLocked:        16,

	thread: threadLayout{
		next: 8, interp: 16,
		ident: 152, nativeID: 160,
		context:       208,
		current:       72,
		chunk:         232,
		stackTop:      240,
		size:          248,
		chunkPrevious: 0,
		chunkSize:     8,
		chunkTop:      16,
		chunkHeader:   24,
		chunkBase:     8,
	},
	frame: frameLayout{
		code: 0, previous: 8, instr: 56,
		stackTop: 64, owner: 70,
		size: 72,
	},
	code: codeLayout{
		stackSize: 64, firstLine: 68, localsPlus: 72,
		globals: 32, locals: 96,
		fileName: 112, name: 120, qualName: 128, lineTable: 136,
		firstTraceable: 184,
		bytecode:       200,
		stampFrom:      64, stampTo: 144,
		size: 200,
	},
	str: strLayout{
		length: 16, state: 32,
		asciiData: 40, otherData: 56,
		kindShift: 2, kindMask: 7,
		compactBit: 5, asciiBit: 6,
	},
	dict: dictLayout{
		used: 16,
		keys: 32, values: 40,
		log2Size: 8, log2Index: 9, kind: 10,
		entries:      24,
		header:       32,
		generalEntry: 24, unicodeEntry: 16,
		valuesHeader: 8,
	},
	typ: typeLayout{
		name: 24, flags: 168, dictOffset: 288,
		cachedKeys:     880,
		basicSize:      32,
		managedDictBit: 4,
		inlineBit:      2,
		attributes:     inlineValues,
	},
	context: contextLayout{
		vars: 24, varHash: 56,
		hamtRoot: 16,
		bitmap:   24, bitmapArray: 32,
		array:     16,
		collision: 32,
	},
	tupleItems: 24,
	bytesData:  32,
	intSize:    16,
	intTagged:  true,
	intDigits:  24,
	lines:      locations311,
	published:  published313,
}

// published313 is struct _Py_DebugOffsets (pycore_runtime.h), as far as it says
// what is read.
func published313(l *layout) map[int]uint64 {
	gil := uint64(7752) // an interpreter's own, in it
	return map[int]uint64{
		5: l.interpretersHead, 8: l.interpNext, 9: l.interpThreads + l.threadsHead, 11: l.interpModules,
		14: l.gil, 15: gil, 17: gil + l.gilLocked, 18: gil + l.gilHolder,
		// thread_state
		21: l.thread.next, 22: l.thread.interp, 23: l.thread.current,
		24: l.thread.ident, 25: l.thread.nativeID, 26: l.thread.chunk,
		// interpreter_frame
		29: l.frame.previous, 30: l.frame.code, 31: l.frame.instr, 32: l.frame.size, 33: l.frame.owner,
		// code_object
		35: l.code.fileName, 36: l.code.name, 37: l.code.qualName, 38: l.code.lineTable,
		39: l.code.firstLine, 41: l.code.locals, 43: l.code.bytecode,
		// pyobject, type_object, tuple_object, dict_object
		45: objectType, 47: l.typ.name, 49: l.typ.flags,
		51: l.tupleItems, 52: varSize, 57: l.dict.keys, 58: l.dict.values,
		// long_object, bytes_object, unicode_object
		62: l.intSize, 63: l.intDigits, 65: varSize, 66: l.bytesData,
		68: l.str.state, 69: l.str.length, 70: l.str.asciiData,
	}
}
