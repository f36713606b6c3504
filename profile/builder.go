package profile

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
)

// Builder merges samples of one process into one Profile. It is not safe for
// concurrent use. The zero Builder is not usable; call [NewBuilder].
type Builder struct {
	types     []ValueType
	frames    table[Frame]
	stacks    stackTable
	links     table[Link]
	labelSets labelTable
	samples   table[sampleKey]
	values    []int64 // len(types) per sample, in the order of samples
	spanNames map[SpanID]string
}

type sampleKey struct{ stack, link, labels int }

// NewBuilder returns an empty Builder for samples with one value per type.
func NewBuilder(types ...ValueType) *Builder {
	b := &Builder{types: slices.Clone(types)}
	b.Reset()
	return b
}

// Reset drops everything but the types.
func (b *Builder) Reset() {
	*b = Builder{types: b.types, spanNames: map[SpanID]string{}}
	b.links.index(Link{})
	b.labelSets.index(nil)
}

// Frame returns the index of f, which a stack handed to Stack refers to.
func (b *Builder) Frame(f Frame) int { return b.frames.index(f) }

// Stack returns the index of the stack, given leaf first as indexes of frames.
// The slice is copied.
func (b *Builder) Stack(frames []int) int { return b.stacks.index(frames) }

// Link returns the index of l; that of the zero Link is 0.
func (b *Builder) Link(l Link) int { return b.links.index(l) }

// Labels returns the index of a set of labels, given in a fixed order; that of
// the empty set is 0. The slice is copied.
func (b *Builder) Labels(set []Label) int { return b.labelSets.index(set) }

// Add adds values, one for each type, to the sample of that stack, link and
// label set.
func (b *Builder) Add(stack, link, labels int, values ...int64) {
	i := b.samples.index(sampleKey{stack, link, labels})
	if n := (i + 1) * len(b.types); n > len(b.values) {
		b.values = append(b.values, make([]int64, n-len(b.values))...)
	}
	for t, v := range values {
		b.values[i*len(b.types)+t] += v
	}
}

// NameSpan sets the name of a local root span; the last call wins.
func (b *Builder) NameSpan(root SpanID, name string) { b.spanNames[root] = name }

// Len returns the number of distinct samples.
func (b *Builder) Len() int { return len(b.samples.list) }

// Build returns what was added. The Builder keeps no part of the Profile and
// can be Reset and used again. Resource, PID, Seq, Start and Duration are the
// caller's to set.
func (b *Builder) Build() *Profile {
	p := &Profile{
		Types:     slices.Clone(b.types),
		Frames:    slices.Clone(b.frames.list),
		Stacks:    slices.Clone(b.stacks.list),
		Links:     slices.Clone(b.links.list),
		SpanNames: maps.Clone(b.spanNames),
		LabelSets: slices.Clone(b.labelSets.list),
		Samples:   make([]Sample, len(b.samples.list)),
	}
	n := len(b.types)
	values := slices.Clone(b.values)
	for i, k := range b.samples.list {
		p.Samples[i] = Sample{k.stack, k.link, k.labels, values[i*n : (i+1)*n : (i+1)*n]}
	}
	return p
}

// table gives each distinct value a small index.
type table[T comparable] struct {
	list []T
	byID map[T]int
}

func (t *table[T]) index(v T) int {
	if i, ok := t.byID[v]; ok {
		return i
	}
	if t.byID == nil {
		t.byID = map[T]int{}
	}
	i := len(t.list)
	t.list = append(t.list, v)
	t.byID[v] = i
	return i
}

var seed = maphash.MakeSeed()

type stackTable struct {
	list   [][]int
	byHash map[uint64][]int
}

func (t *stackTable) index(frames []int) int {
	var h maphash.Hash
	h.SetSeed(seed)
	var word [8]byte
	for _, f := range frames {
		binary.LittleEndian.PutUint64(word[:], uint64(f))
		h.Write(word[:])
	}
	sum := h.Sum64()
	for _, i := range t.byHash[sum] {
		if slices.Equal(t.list[i], frames) {
			return i
		}
	}
	if t.byHash == nil {
		t.byHash = map[uint64][]int{}
	}
	i := len(t.list)
	t.list = append(t.list, slices.Clone(frames))
	t.byHash[sum] = append(t.byHash[sum], i)
	return i
}

// labelTable is a linear list per first label: sets are few (one per thread,
// one per exception type).
type labelTable struct {
	list    [][]Label
	byFirst map[Label][]int
}

func (t *labelTable) index(set []Label) int {
	var first Label
	if len(set) > 0 {
		first = set[0]
	}
	for _, i := range t.byFirst[first] {
		if slices.Equal(t.list[i], set) {
			return i
		}
	}
	if t.byFirst == nil {
		t.byFirst = map[Label][]int{}
	}
	i := len(t.list)
	t.list = append(t.list, slices.Clone(set))
	t.byFirst[first] = append(t.byFirst[first], i)
	return i
}
