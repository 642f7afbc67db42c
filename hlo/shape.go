package hlo

import "slices"

// Shape is the type of a value: an array (element type, dimensions, layout),
// a tuple, a token, an opaque value, or a buffer b(T).
type Shape struct {
	Type PrimitiveType
	// Dims are the dimension sizes, each >= 0; for a dynamic dimension the
	// upper bound, or Unbounded.
	Dims []int64
	// Dynamic marks dynamic dimensions; nil when all are static.
	Dynamic []bool
	// Layout is nil when the shape carries none.
	Layout *Layout
	// Elements are the element shapes of a tuple, or the one shape inside a
	// buffer.
	Elements []*Shape
	// Unknown are the fields of the wire message that this schema lacks.
	Unknown []byte
}

// Unbounded is the size of a dynamic dimension without a bound (`?`).
const Unbounded int64 = -1 << 63

// Layout says how an array lies in memory (xla/layout.h).
type Layout struct {
	MinorToMajor               []int64
	Tiles                      [][]int64 // TileCombine marks `*`
	DimLevelTypes              []DimLevel
	TailPaddingAlignment       int64 // in elements; 0 and 1 mean none
	IndexType, PointerType     PrimitiveType
	ElementSizeInBits          int64 // 0: the type's own
	MemorySpace                int64
	SplitConfigs               []SplitConfig
	PhysicalShape              *Shape
	DynamicMetadataPrefixBytes int64
	// Unknown are the fields of the wire message that this schema lacks.
	Unknown []byte
}

// TileCombine is the tile size `*`: the dimension is combined with the next
// more minor one.
const TileCombine int64 = -1 << 63

// DimLevel is the sparse level type of one dimension.
type DimLevel struct {
	Type            int32 // xla.DimLevelType: 0 dense, 1 compressed, 2 singleton, 3 loose compressed
	Unique, Ordered bool
}

// SplitConfig says where a dimension is split over memories.
type SplitConfig struct {
	Dimension    int64
	SplitIndices []int64
}

// DefaultLayout is the row-major layout of an array of the given rank.
func DefaultLayout(rank int) *Layout {
	l := &Layout{MinorToMajor: make([]int64, rank)}
	for i := range l.MinorToMajor {
		l.MinorToMajor[i] = int64(rank - 1 - i)
	}
	return l
}

// ArrayShape makes a static array shape without a layout.
func ArrayShape(t PrimitiveType, dims ...int64) *Shape {
	return &Shape{Type: t, Dims: dims}
}

// TupleShape makes a tuple shape.
func TupleShape(elements ...*Shape) *Shape { return &Shape{Type: Tuple, Elements: elements} }

// IsArray reports whether the shape is an array.
func (s *Shape) IsArray() bool { return s.Type.IsArray() }

// IsTuple reports whether the shape is a tuple.
func (s *Shape) IsTuple() bool { return s.Type == Tuple }

// Rank is the number of dimensions of an array.
func (s *Shape) Rank() int { return len(s.Dims) }

// Elems is the number of elements of an array: the product of its dimensions
// (1 for a scalar), with dynamic dimensions at their bounds. It saturates at
// the largest int64 and is 0 for other shapes.
func (s *Shape) Elems() int64 {
	if !s.IsArray() {
		return 0
	}
	n := int64(1)
	for _, d := range s.Dims {
		if d <= 0 {
			return 0
		}
		if n > (1<<63-1)/d {
			n = 1<<63 - 1
			continue
		}
		n *= d
	}
	return n
}

// IsDynamic reports whether any array inside has a dynamic dimension.
func (s *Shape) IsDynamic() bool {
	return slices.Contains(s.Dynamic, true) || slices.ContainsFunc(s.Elements, (*Shape).IsDynamic)
}

// Clone is a deep copy; nil gives nil.
func (s *Shape) Clone() *Shape {
	if s == nil {
		return nil
	}
	c := *s
	c.Dims = slices.Clone(s.Dims)
	c.Dynamic = slices.Clone(s.Dynamic)
	c.Layout = s.Layout.Clone()
	c.Elements = nil
	for _, e := range s.Elements {
		c.Elements = append(c.Elements, e.Clone())
	}
	return &c
}

// WithoutLayout is a deep copy with every layout removed.
func (s *Shape) WithoutLayout() *Shape {
	c := s.Clone()
	c.stripLayout()
	return c
}

func (s *Shape) stripLayout() {
	s.Layout = nil
	for _, e := range s.Elements {
		e.stripLayout()
	}
}

// Clone is a deep copy; nil gives nil.
func (l *Layout) Clone() *Layout {
	if l == nil {
		return nil
	}
	c := *l
	c.MinorToMajor = slices.Clone(l.MinorToMajor)
	c.DimLevelTypes = slices.Clone(l.DimLevelTypes)
	c.Tiles = nil
	for _, t := range l.Tiles {
		c.Tiles = append(c.Tiles, slices.Clone(t))
	}
	c.SplitConfigs = nil
	for _, sc := range l.SplitConfigs {
		c.SplitConfigs = append(c.SplitConfigs, SplitConfig{sc.Dimension, slices.Clone(sc.SplitIndices)})
	}
	c.PhysicalShape = l.PhysicalShape.Clone()
	return &c
}

// Compatible reports whether two shapes have the same types and dimensions,
// layouts and dynamic marks aside. An unbounded dimension fits any size.
func (s *Shape) Compatible(o *Shape) bool {
	return compatible(s, o, func(a, b PrimitiveType) bool { return a == b })
}

// Leaves are the non-tuple shapes inside, in depth-first order.
func (s *Shape) Leaves() []*Shape {
	if !s.IsTuple() {
		return []*Shape{s}
	}
	var out []*Shape
	for _, e := range s.Elements {
		out = append(out, e.Leaves()...)
	}
	return out
}
