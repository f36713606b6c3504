package cpython

// CPython 3.11: Include/internal/pycore_{runtime,interp,frame,code,dict,hamt,
// context}.h, Include/cpython/pystate.h. The same in 3.11.2 and 3.11.7.
var layout311 = layout{
	interpretersHead: 40,
	interpNext:       0,
	interpThreads:    16,
	interpModules:    888,

	thread: threadLayout{
		next: 8, interp: 16,
		ident: 152, nativeID: 160,
		context:       224,
		cframe:        56,
		cframeCurrent: 8,
		chunk:         296,
		stackTop:      304,
		size:          312,
		chunkPrevious: 0,
		chunkSize:     8,
		chunkTop:      16,
		chunkHeader:   24,
	},
	frame: frameLayout{
		code: 32, previous: 48, instr: 56,
		stackTop: 64, entry: 68, owner: 69,
		size: 72,
	},
	code: codeLayout{
		stackSize: 68, firstLine: 72, localsPlus: 76,
		fileName: 112, name: 120, qualName: 128, lineTable: 136,
		bytecode:  184,
		stampFrom: 68, stampTo: 144,
		size: 184,
	},
	str: strLayout{
		length: 16, state: 32,
		asciiData: 48, otherData: 72,
		kindShift: 2, kindMask: 7,
		compactBit: 5, asciiBit: 6,
	},
	dict: dictLayout{
		keys: 32, values: 40,
		log2Size: 8, log2Index: 9, kind: 10,
		entries:      24,
		header:       32,
		generalEntry: 24, unicodeEntry: 16,
	},
	typ: typeLayout{
		name: 24, flags: 168, dictOffset: 288,
		cachedKeys:     872,
		managedDictBit: 4,
		valuesBefore:   32, dictBefore: 24,
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
	intDigits:  24,
	lines:      locations311,
}
