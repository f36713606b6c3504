package cpython

import "math/bits"

// nodeKind is one of the three node types of a HAMT (Python/hamt.c).
type nodeKind uint8

const (
	bitmapNode nodeKind = iota + 1
	arrayNode
	collisionNode
)

const hamtBits, hamtDepth = 5, 7

// nodeAhead covers a bitmap node of six pairs: the contexts of most programs
// have no larger ones.
const nodeAhead = 128

// hamtKind resolves a node's type by its name, once per type.
func (w *walk) hamtKind(typ uint64) nodeKind {
	if kind, ok := w.r.nodes[typ]; ok || w.err != nil {
		return kind
	}
	name, err := w.r.word(typ + w.r.layout.typ.name)
	if err != nil {
		w.fail(err)
		return 0
	}
	text, err := w.r.cString(name)
	if err != nil {
		w.fail(err)
		return 0
	}
	kind := map[string]nodeKind{
		"hamt_bitmap_node":    bitmapNode,
		"hamt_array_node":     arrayNode,
		"hamt_collision_node": collisionNode,
	}[text]
	if kind == 0 {
		w.fail(errMalformed)
		return 0
	}
	w.r.nodes[typ] = kind
	return kind
}

// hamtHash is the hash that a HAMT uses of a Python hash (hamt_hash).
func hamtHash(hash uint64) uint32 {
	h := uint32(hash) ^ uint32(hash>>32)
	if h == 1<<32-1 {
		return 1<<32 - 2
	}
	return h
}

// hamtFind walks to the value of a key object in a HAMT, 0 when it has none.
func (w *walk) hamtFind(hamt, key, keyHash uint64) uint64 {
	l := &w.r.layout.context
	node := w.word(hamt + l.hamtRoot)
	hash := hamtHash(keyHash)
	for level := 0; level <= hamtDepth && w.err == nil; level++ {
		chunk := hash >> (hamtBits * level) & (1<<hamtBits - 1)
		w.ahead(node, nodeAhead)
		head := w.read(node, varSize+8)
		switch w.hamtKind(le.Uint64(head[objectType:])) {
		case bitmapNode:
			bitmap, bit := uint32(w.word(node+l.bitmap)), uint32(1)<<chunk
			if bitmap&bit == 0 {
				return 0
			}
			slot := uint64(bits.OnesCount32(bitmap & (bit - 1)))
			pair := w.read(node+l.bitmapArray+16*slot, 16)
			k, v := le.Uint64(pair), le.Uint64(pair[8:])
			if k == key {
				return v
			}
			if k != 0 {
				return 0
			}
			node = v
		case arrayNode:
			if node = w.word(node + l.array + 8*uint64(chunk)); node == 0 {
				return 0
			}
		case collisionNode:
			return w.collision(node, key, le.Uint64(head[varSize:]))
		default:
			return 0
		}
	}
	return 0
}

func (w *walk) collision(node, key, words uint64) uint64 {
	if words > 2*maxCollisions {
		w.fail(errMalformed)
		return 0
	}
	pairs := w.read(node+w.r.layout.context.collision, words*8)
	for i := 0; i+16 <= len(pairs); i += 16 {
		if le.Uint64(pairs[i:]) == key {
			return le.Uint64(pairs[i+8:])
		}
	}
	return 0
}
