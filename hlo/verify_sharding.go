package hlo

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
	"google.golang.org/protobuf/proto"
)

// checkSharding checks a sharding against the shape that it is for
// (HloSharding::Validate in xla/hlo/ir/hlo_sharding.cc): one per leaf of a
// tuple, tiles of the array's rank, and every device once. Where the number
// of partitions is known (above 1), it is the number of devices.
func checkSharding(s *hlopb.OpSharding, shape *Shape, partitions int64) error {
	if shape.Type == Token {
		return nil
	}
	if !shape.IsTuple() {
		if s.GetType() == hlopb.OpSharding_TUPLE {
			return fmt.Errorf("a tuple of shardings for %s", shape.text())
		}
		return checkLeafSharding(s, shape, partitions)
	}
	if s.GetType() != hlopb.OpSharding_TUPLE {
		return fmt.Errorf("one sharding for the tuple %s", shape.text())
	}
	leaves := shardedLeaves(shape)
	if len(s.GetTupleShardings()) != len(leaves) && !(len(shape.Leaves()) == 0 && len(s.GetTupleShardings()) <= 1) {
		return fmt.Errorf("%d shardings for the %d leaves of %s", len(s.GetTupleShardings()), len(leaves), shape.text())
	}
	for i, leaf := range leaves {
		if leaf.IsTuple() { // an empty tuple counts as a leaf
			continue
		}
		if err := checkLeafSharding(s.GetTupleShardings()[i], leaf, partitions); err != nil {
			return fmt.Errorf("leaf %d: %w", i, err)
		}
	}
	return nil
}

// shardedLeaves are the leaves that have a sharding each: the arrays, tokens
// and empty tuples.
func shardedLeaves(s *Shape) []*Shape {
	if !s.IsTuple() || len(s.Elements) == 0 {
		return []*Shape{s}
	}
	var out []*Shape
	for _, e := range s.Elements {
		out = append(out, shardedLeaves(e)...)
	}
	return out
}

func checkLeafSharding(s *hlopb.OpSharding, shape *Shape, partitions int64) error {
	if n := s.GetNamedSharding(); n != nil {
		if len(n.GetDimShardings()) != 0 && len(n.GetDimShardings()) != len(shape.Dims) {
			return fmt.Errorf("sharding of %d dimensions for %s", len(n.GetDimShardings()), shape.text())
		}
		return nil
	}
	switch s.GetType() {
	case hlopb.OpSharding_REPLICATED, hlopb.OpSharding_MANUAL, hlopb.OpSharding_UNKNOWN, hlopb.OpSharding_UNREDUCED:
		return nil
	case hlopb.OpSharding_MAXIMAL:
		if d := s.GetTileAssignmentDevices(); len(d) != 1 || d[0] < 0 || partitions > 1 && d[0] >= partitions {
			return fmt.Errorf("sharding of one device names the devices %v", d)
		}
		return nil
	case hlopb.OpSharding_TUPLE:
		return fmt.Errorf("a tuple of shardings for %s", shape.text())
	}
	dims := s.GetTileAssignmentDimensions()
	rank := len(dims) - len(s.GetLastTileDims())
	if s.GetReplicateOnLastTileDim() {
		rank--
	}
	if rank != len(shape.Dims) {
		return fmt.Errorf("sharding has tiles of rank %d for %s", rank, shape.text())
	}
	n, err := idProduct(dims)
	if err != nil {
		return fmt.Errorf("sharding: tile %w", err)
	}
	if partitions > 1 && n != partitions {
		return fmt.Errorf("sharding over %d devices of %d partitions", n, partitions)
	}
	devices := s.GetTileAssignmentDevices()
	if len(devices) == 0 { // iota form
		m, err := idProduct(s.GetIotaReshapeDims())
		if err != nil || m != n {
			return fmt.Errorf("sharding has %d tiles for the devices %v", n, s.GetIotaReshapeDims())
		}
		return nil
	}
	if int64(len(devices)) != n || !unique(devices) || slices.Min(devices) < 0 || partitions > 1 && slices.Max(devices) >= partitions {
		return fmt.Errorf("sharding of %d tiles names %d devices, one of them twice or out of range", n, len(devices))
	}
	return nil
}

// sameSharding checks that those of the instructions that have a sharding
// have the same (VerifyConsistentSharding).
func (v *verifier) sameSharding(c *Computation, in *Instruction, list []*Instruction) {
	var first *hlopb.OpSharding
	for _, x := range list {
		if x == nil || x.Attr.GetSharding() == nil {
			continue
		}
		s := proto.CloneOf(x.Attr.GetSharding())
		dropShardingMetadata(s)
		if first == nil {
			first = s
			continue
		}
		if !proto.Equal(first, s) {
			v.report(c, in, RuleSharding, "%v and its computations have different shardings", in.Op)
			return
		}
	}
}

func dropShardingMetadata(s *hlopb.OpSharding) {
	s.Metadata = nil
	for _, t := range s.GetTupleShardings() {
		dropShardingMetadata(t)
	}
}
