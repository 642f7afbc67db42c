package hlo

import (
	"bytes"
	"fmt"
	"math"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxShapeDepth bounds the nesting of tuples that come from outside.
const maxShapeDepth = 500

// ShapeFromProto reads a shape. It refuses what is no shape (unknown type,
// negative or overflowing sizes, a layout of another rank) as
// xla/shape_util.cc ValidateShapeWithOptionalLayout does.
func ShapeFromProto(p *hlopb.ShapeProto) (*Shape, error) {
	s, err := shapeFromProto(p, 0)
	if err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func shapeFromProto(p *hlopb.ShapeProto, depth int) (*Shape, error) {
	if p == nil {
		return nil, fmt.Errorf("shape is missing")
	}
	if depth > maxShapeDepth {
		return nil, fmt.Errorf("shape is nested deeper than %d", maxShapeDepth)
	}
	s := &Shape{Type: PrimitiveType(p.ElementType), Unknown: bytes.Clone(p.ProtoReflect().GetUnknown())}
	if !s.Type.valid() || s.Type == InvalidType {
		return nil, fmt.Errorf("unknown element type %d", p.ElementType)
	}
	if len(p.Dimensions) > 0 {
		s.Dims = append(s.Dims, p.Dimensions...)
	}
	if n := len(p.IsDynamicDimension); n != 0 {
		if n != len(p.Dimensions) {
			return nil, fmt.Errorf("shape has %d dimensions but %d dynamic marks", len(p.Dimensions), n)
		}
		for i, d := range p.IsDynamicDimension {
			if d {
				if s.Dynamic == nil {
					s.Dynamic = make([]bool, n)
				}
				s.Dynamic[i] = true
			}
		}
	}
	for _, e := range p.TupleShapes {
		es, err := shapeFromProto(e, depth+1)
		if err != nil {
			return nil, err
		}
		s.Elements = append(s.Elements, es)
	}
	if p.Layout != nil {
		l, err := layoutFromProto(p.Layout, depth)
		if err != nil {
			return nil, err
		}
		s.Layout = l
	}
	return s, nil
}

func layoutFromProto(p *hlopb.LayoutProto, depth int) (*Layout, error) {
	l := &Layout{
		MinorToMajor:               append([]int64{}, p.MinorToMajor...),
		TailPaddingAlignment:       p.TailPaddingAlignmentInElements,
		IndexType:                  PrimitiveType(p.IndexPrimitiveType),
		PointerType:                PrimitiveType(p.PointerPrimitiveType),
		ElementSizeInBits:          p.ElementSizeInBits,
		MemorySpace:                p.MemorySpace,
		DynamicMetadataPrefixBytes: p.DynamicShapeMetadataPrefixBytes,
		Unknown:                    bytes.Clone(p.ProtoReflect().GetUnknown()),
	}
	if l.TailPaddingAlignment == 1 { // 0 and 1 mean the same; Layout's form is 0
		l.TailPaddingAlignment = 0
	}
	for _, t := range p.Tiles {
		if err := refuseUnknown(t); err != nil {
			return nil, err
		}
		l.Tiles = append(l.Tiles, append([]int64{}, t.Dimensions...))
	}
	// Older builds write the level types of every layout; all dense is none.
	dense := true
	for _, d := range p.DimLevelTypes {
		dense = dense && d == hlopb.DimLevelType_DIM_DENSE
	}
	if n := len(p.DimLevelTypes); !dense {
		for i, d := range p.DimLevelTypes {
			level := DimLevel{Type: int32(d), Unique: true, Ordered: true}
			if len(p.DimUnique) == n {
				level.Unique = p.DimUnique[i]
			}
			if len(p.DimOrdered) == n {
				level.Ordered = p.DimOrdered[i]
			}
			l.DimLevelTypes = append(l.DimLevelTypes, level)
		}
	}
	for _, c := range p.SplitConfigs {
		if err := refuseUnknown(c); err != nil {
			return nil, err
		}
		l.SplitConfigs = append(l.SplitConfigs, SplitConfig{c.Dimension, append([]int64(nil), c.SplitIndices...)})
	}
	if p.PhysicalShape != nil {
		ps, err := shapeFromProto(p.PhysicalShape, depth+1)
		if err != nil {
			return nil, fmt.Errorf("physical shape: %w", err)
		}
		l.PhysicalShape = ps
	}
	return l, nil
}

// refuseUnknown turns away unknown fields inside the few small messages that
// have no room for them: refused rather than lost.
func refuseUnknown(m proto.Message) error {
	r := m.ProtoReflect()
	if nums := unknownNumbers(r.GetUnknown()); len(nums) > 0 {
		return fmt.Errorf("%s has the unknown field %d", r.Descriptor().Name(), nums[0])
	}
	return nil
}

// Validate checks the shape by itself: a known element type, sizes that are
// not negative (or Unbounded) and whose product fits int64, elements only in
// tuples and buffers, and layouts that fit. The error says what is wrong.
// Sources: xla/shape_util.cc ValidateNonLayoutProperties and
// xla/layout_util.cc ValidateLayoutForShape.
func (s *Shape) Validate() error {
	if s == nil {
		return fmt.Errorf("shape is missing")
	}
	if !s.Type.valid() || s.Type == InvalidType {
		return fmt.Errorf("unknown element type %d", s.Type)
	}
	if !s.IsArray() {
		if len(s.Dims) > 0 || len(s.Dynamic) > 0 {
			return fmt.Errorf("%v shape has dimensions", s.Type)
		}
		if s.Layout != nil {
			return fmt.Errorf("%v shape has a layout", s.Type)
		}
	}
	switch s.Type {
	case Tuple:
		for _, e := range s.Elements {
			if err := e.Validate(); err != nil {
				return err
			}
		}
		return nil
	case Buffer:
		if len(s.Elements) != 1 || s.Elements[0] == nil || !s.Elements[0].IsArray() {
			return fmt.Errorf("buffer shape must hold one array shape")
		}
		return s.Elements[0].Validate()
	}
	if len(s.Elements) > 0 {
		return fmt.Errorf("%v shape has elements", s.Type)
	}
	if !s.IsArray() {
		return nil
	}
	if s.Dynamic != nil && len(s.Dynamic) != len(s.Dims) {
		return fmt.Errorf("shape has %d dimensions but %d dynamic marks", len(s.Dims), len(s.Dynamic))
	}
	product := int64(1)
	for i, d := range s.Dims {
		if d == Unbounded && s.Dynamic != nil && s.Dynamic[i] {
			continue
		}
		if d < 0 {
			return fmt.Errorf("dimension %d has the negative size %d", i, d)
		}
		if d > 0 && product > math.MaxInt64/d {
			return fmt.Errorf("dimensions %v overflow", s.Dims)
		}
		product *= d
	}
	return s.Layout.validate(s)
}

func (l *Layout) validate(s *Shape) error {
	if l == nil {
		return nil
	}
	if len(l.MinorToMajor) != len(s.Dims) {
		return fmt.Errorf("layout of %d dimensions for a shape of %d", len(l.MinorToMajor), len(s.Dims))
	}
	seen := make([]bool, len(s.Dims))
	for _, d := range l.MinorToMajor {
		if d < 0 || d >= int64(len(seen)) || seen[d] {
			return fmt.Errorf("layout {%v} is not a permutation of the dimensions", l.MinorToMajor)
		}
		seen[d] = true
	}
	if l.TailPaddingAlignment < 0 {
		return fmt.Errorf("layout has the tail padding alignment %d", l.TailPaddingAlignment)
	}
	if l.ElementSizeInBits < 0 {
		return fmt.Errorf("layout has the element size %d", l.ElementSizeInBits)
	}
	if !l.IndexType.valid() || !l.PointerType.valid() {
		return fmt.Errorf("layout has an unknown index or pointer type")
	}
	for _, t := range l.Tiles {
		if len(t) == 0 {
			return fmt.Errorf("layout has an empty tile")
		}
		for _, d := range t {
			if d <= 0 && d != TileCombine {
				return fmt.Errorf("layout has the tile size %d", d)
			}
		}
	}
	if n := len(l.DimLevelTypes); n != 0 && n != len(s.Dims) {
		return fmt.Errorf("layout has %d dimension level types for %d dimensions", n, len(s.Dims))
	}
	split := make([]bool, len(s.Dims))
	for _, c := range l.SplitConfigs {
		// The dimension counts from the most major one of the layout.
		if c.Dimension < 0 || c.Dimension >= int64(len(split)) || split[c.Dimension] {
			return fmt.Errorf("layout splits dimension %d, which is out of range or split twice", c.Dimension)
		}
		split[c.Dimension] = true
		size := s.Dims[l.MinorToMajor[len(l.MinorToMajor)-1-int(c.Dimension)]]
		last := int64(0)
		for _, i := range c.SplitIndices {
			if i <= last || i >= size {
				return fmt.Errorf("layout splits dimension %d at %v: want ascending indices between 0 and %d", c.Dimension, c.SplitIndices, size)
			}
			last = i
		}
	}
	if l.PhysicalShape != nil {
		if err := l.PhysicalShape.Validate(); err != nil {
			return fmt.Errorf("physical shape: %w", err)
		}
	}
	return nil
}

// Proto is the wire form of the shape. An array without a layout stays so.
func (s *Shape) Proto() *hlopb.ShapeProto { return s.proto(false) }

// proto makes the wire form; with fill, arrays without a layout get the
// row-major one, as every shape that XLA's text parser makes.
func (s *Shape) proto(fill bool) *hlopb.ShapeProto {
	p := &hlopb.ShapeProto{ElementType: hlopb.PrimitiveType(s.Type)}
	if s.IsArray() {
		p.Dimensions = append(p.Dimensions, s.Dims...)
		p.IsDynamicDimension = make([]bool, len(s.Dims))
		copy(p.IsDynamicDimension, s.Dynamic)
		l := s.Layout
		if l == nil && fill {
			l = DefaultLayout(len(s.Dims))
		}
		if l != nil {
			p.Layout = l.proto()
		}
	}
	for _, e := range s.Elements {
		p.TupleShapes = append(p.TupleShapes, e.proto(fill))
	}
	setUnknown(p.ProtoReflect(), s.Unknown)
	return p
}

func (l *Layout) proto() *hlopb.LayoutProto {
	p := &hlopb.LayoutProto{
		MinorToMajor:                    append([]int64(nil), l.MinorToMajor...),
		TailPaddingAlignmentInElements:  max(1, l.TailPaddingAlignment),
		IndexPrimitiveType:              hlopb.PrimitiveType(l.IndexType),
		PointerPrimitiveType:            hlopb.PrimitiveType(l.PointerType),
		ElementSizeInBits:               l.ElementSizeInBits,
		MemorySpace:                     l.MemorySpace,
		DynamicShapeMetadataPrefixBytes: l.DynamicMetadataPrefixBytes,
	}
	for _, t := range l.Tiles {
		p.Tiles = append(p.Tiles, &hlopb.TileProto{Dimensions: append([]int64(nil), t...)})
	}
	for _, d := range l.DimLevelTypes {
		p.DimLevelTypes = append(p.DimLevelTypes, hlopb.DimLevelType(d.Type))
		p.DimUnique = append(p.DimUnique, d.Unique)
		p.DimOrdered = append(p.DimOrdered, d.Ordered)
	}
	for _, c := range l.SplitConfigs {
		p.SplitConfigs = append(p.SplitConfigs, &hlopb.SplitConfigProto{
			Dimension: c.Dimension, SplitIndices: append([]int64(nil), c.SplitIndices...)})
	}
	if l.PhysicalShape != nil {
		p.PhysicalShape = l.PhysicalShape.Proto()
	}
	setUnknown(p.ProtoReflect(), l.Unknown)
	return p
}

func setUnknown(r protoreflect.Message, b []byte) {
	if len(b) > 0 {
		r.SetUnknown(bytes.Clone(b))
	}
}
