package hlo

import (
	"fmt"
	"slices"

	"github.com/passgate/passgate/hlo/hlopb"
)

// groupSize is what collectives need to know about the module: the number of
// replicas and partitions, 0 where unknown (text and wire may leave it out).
type groupSize struct{ replicas, partitions int64 }

// Group modes of collectives (xla/hlo/ir/collective_op_group_mode.cc).
const (
	crossReplica = iota
	crossPartition
	crossBoth // replicas of all partitions
	flattened
)

// groupMode is how a collective forms its groups: by channel id and
// use_global_device_ids, which must not be set without a channel. Channel 0 is
// none: XLA's text parser keeps it, but the wire cannot say it, and what a build
// reads from the wire has no channel then (HloInstruction::CreateFromProto).
func (in *Instruction) groupMode() (int, error) {
	channel := in.Attr.GetChannelId() > 0
	switch in.Op {
	case OpAllToAll, OpRaggedAllToAll, OpCollectiveBroadcast, OpCollectivePermute, OpCollectivePermuteStart:
		if channel {
			return crossPartition, nil
		}
		return crossReplica, nil
	}
	switch {
	case !channel && in.Attr.GetUseGlobalDeviceIds():
		return 0, fmt.Errorf("%v has use_global_device_ids without a channel_id above 0", in.Op)
	case !channel:
		return crossReplica, nil
	case in.Attr.GetUseGlobalDeviceIds():
		return flattened, nil
	}
	return crossBoth, nil
}

// maxGroupIDs bounds the ids that replica groups in short form stand for, and
// the tiles of a sharding: more devices than any machine has, and few enough
// for a hostile module.
const maxGroupIDs = 1 << 16

// ReplicaGroups are the replica groups of a collective, whichever form the
// wire holds them in: lists, iota (xla/hlo/ir/replica_group.h) or mesh axes;
// nil when there are none. The error says which numbers do not fit.
func (in *Instruction) ReplicaGroups() ([][]int64, error) {
	a := in.Attr
	if l := a.GetIotaCollectiveDeviceList(); l != nil {
		ids, err := iotaIDs(l.GetIotaReshapeDims(), toInt64(l.GetIotaTransposePerm()))
		if err != nil {
			return nil, fmt.Errorf("replica groups: %w", err)
		}
		n, size := l.GetNumReplicaGroups(), l.GetNumDevicesPerGroup()
		if n <= 0 || size <= 0 || mulOverflows(n, size) || n*size != int64(len(ids)) {
			return nil, fmt.Errorf("replica groups [%d,%d] of %d devices", n, size, len(ids))
		}
		var groups [][]int64
		for g := range slices.Chunk(ids, int(size)) {
			groups = append(groups, g)
		}
		return groups, nil
	}
	if l := a.GetMeshAxesReplicaGroupList(); l != nil {
		return meshGroups(l)
	}
	list := a.GetCollectiveDeviceList().GetReplicaGroups()
	if len(list) == 0 { // the oldest form, in a module made by hand
		list = a.GetReplicaGroups()
	}
	var groups [][]int64
	for _, g := range list {
		groups = append(groups, g.GetReplicaIds())
	}
	return groups, nil
}

func toInt64(v []int32) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// idProduct multiplies sizes that must be positive and have a product of at
// most maxGroupIDs.
func idProduct(dims []int64) (int64, error) {
	n := int64(1)
	for _, d := range dims {
		if d <= 0 || n > maxGroupIDs/d {
			return 0, fmt.Errorf("sizes %v are not positive or too large", dims)
		}
		n *= d
	}
	return n, nil
}

// iotaIDs is 0, 1, ... reshaped to dims, then transposed by perm (empty: not
// transposed), in row-major order (xla/hlo/ir/tile_assignment.h).
func iotaIDs(dims, perm []int64) ([]int64, error) {
	n, err := idProduct(dims)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, n)
	if len(perm) == 0 {
		for i := range ids {
			ids[i] = int64(i)
		}
		return ids, nil
	}
	if len(perm) != len(dims) || !inRange(perm, len(dims)) || !unique(perm) {
		return nil, fmt.Errorf("%v is no permutation of %d dimensions", perm, len(dims))
	}
	strides := make([]int64, len(dims))
	s := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		strides[i] = s
		s *= dims[i]
	}
	index := make([]int64, len(perm))
	for i := range ids {
		for j, p := range perm {
			ids[i] += index[j] * strides[p]
		}
		for j := len(perm) - 1; j >= 0; j-- {
			if index[j]++; index[j] < dims[perm[j]] {
				break
			}
			index[j] = 0
		}
	}
	return ids, nil
}

// meshGroups groups the devices of a mesh along the given axes, or parts of
// axes: devices that differ only there are in one group, ordered by the axes
// as listed (xla/hlo/ir/mesh_and_axis.h, replica_group.cc).
func meshGroups(l *hlopb.MeshAxesReplicaGroupListProto) ([][]int64, error) {
	mesh := l.GetMesh()
	// Split every axis into pieces, so that each reference is whole pieces.
	type piece struct {
		size int64
		pick int // position in the list of axes, -1 for the others
	}
	var pieces []piece
	for i, axis := range mesh.GetAxes() {
		cuts := []int64{1, axis.GetSize()}
		for _, ref := range l.GetAxes() {
			if s := ref.GetSubAxisInfo(); ref.GetMeshAxisIndex() == int64(i) && s != nil {
				if s.GetPreSize() <= 0 || s.GetSize() <= 0 || mulOverflows(s.GetPreSize(), s.GetSize()) {
					return nil, fmt.Errorf("replica groups: part (%d)%d of a mesh axis", s.GetPreSize(), s.GetSize())
				}
				cuts = append(cuts, s.GetPreSize(), s.GetPreSize()*s.GetSize())
			}
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		if cuts[0] != 1 || cuts[len(cuts)-1] != axis.GetSize() {
			return nil, fmt.Errorf("replica groups: parts of the mesh axis of size %d go beyond it", axis.GetSize())
		}
		start := int64(1)
		for _, c := range cuts[1:] {
			if c%start != 0 {
				return nil, fmt.Errorf("replica groups: parts of the mesh axis of size %d overlap", axis.GetSize())
			}
			p := piece{size: c / start, pick: -1}
			for j, ref := range l.GetAxes() {
				if ref.GetMeshAxisIndex() != int64(i) {
					continue
				}
				lo, hi := int64(1), axis.GetSize()
				if s := ref.GetSubAxisInfo(); s != nil {
					lo, hi = s.GetPreSize(), s.GetPreSize()*s.GetSize()
				}
				if lo <= start && c <= hi {
					p.pick = j
				}
			}
			pieces = append(pieces, p)
			start = c
		}
	}
	for _, ref := range l.GetAxes() {
		if i := ref.GetMeshAxisIndex(); i < 0 || i >= int64(len(mesh.GetAxes())) {
			return nil, fmt.Errorf("replica groups: axis %d of a mesh of %d", i, len(mesh.GetAxes()))
		}
	}
	dims := make([]int64, len(pieces))
	for i, p := range pieces {
		dims[i] = p.size
	}
	// First the pieces that tell the groups apart, then those inside a group.
	var perm []int64
	for i, p := range pieces {
		if p.pick < 0 {
			perm = append(perm, int64(i))
		}
	}
	size := int64(1)
	for j := range l.GetAxes() {
		for i, p := range pieces {
			if p.pick == j {
				perm = append(perm, int64(i))
				size *= p.size
			}
		}
	}
	ids, err := iotaIDs(dims, perm)
	if err != nil {
		return nil, fmt.Errorf("replica groups: %w", err)
	}
	devices := mesh.GetDeviceIds()
	if t := mesh.GetIotaTransform(); t != nil {
		if devices, err = iotaIDs(t.GetReshapeDims(), t.GetTransposePerm()); err != nil {
			return nil, fmt.Errorf("replica groups: mesh: %w", err)
		}
	}
	if len(devices) > 0 {
		if len(devices) != len(ids) {
			return nil, fmt.Errorf("replica groups: a mesh of %d places for %d devices", len(ids), len(devices))
		}
		for i, id := range ids {
			ids[i] = devices[id]
		}
	}
	var groups [][]int64
	for g := range slices.Chunk(ids, int(size)) {
		groups = append(groups, g)
	}
	return groups, nil
}

// subgroupSize is the number of devices in one group (GetSubgroupSize in
// xla/service/collective_ops_utils.cc), 0 where it is unknown.
func (in *Instruction) subgroupSize(g groupSize) (int64, error) {
	mode, err := in.groupMode()
	if err != nil {
		return 0, err
	}
	groups, err := in.ReplicaGroups()
	if err != nil {
		return 0, err
	}
	n := g.replicas
	if len(groups) > 0 {
		n = int64(len(groups[0]))
	}
	switch mode {
	case crossBoth:
		return n * g.partitions, nil
	case crossPartition:
		if len(groups) == 0 {
			return g.partitions, nil
		}
	case flattened:
		if len(groups) == 0 {
			return 0, fmt.Errorf("%v has no replica groups, which flattened ids need", in.Op)
		}
	}
	return n, nil
}

// checkGroups checks the replica groups: each id from 0 to n-1 once, no empty
// group, n as the module says, and one size where the operation needs it
// (CheckReplicaGroups).
func (in *Instruction) checkGroups(g groupSize) error {
	mode, err := in.groupMode()
	if err != nil {
		return err
	}
	groups, err := in.ReplicaGroups()
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		if mode == flattened {
			return fmt.Errorf("%v has no replica groups, which flattened ids need", in.Op)
		}
		return nil
	}
	var ids []int64
	for _, group := range groups {
		if len(group) == 0 {
			return fmt.Errorf("%v has an empty replica group", in.Op)
		}
		if len(group) != len(groups[0]) && in.Op != OpAllReduce && in.Op != OpAllReduceStart {
			return fmt.Errorf("%v has replica groups of %d and %d", in.Op, len(groups[0]), len(group))
		}
		ids = append(ids, group...)
	}
	if !inRange(ids, len(ids)) || !unique(ids) {
		return fmt.Errorf("replica groups of %v do not hold each of 0 to %d once", in.Op, len(ids)-1)
	}
	n, replicas, partitions := int64(len(ids)), max(1, g.replicas), max(1, g.partitions)
	want := replicas
	switch mode {
	case crossPartition:
		want = partitions
	case flattened:
		want = replicas * partitions
	}
	if want != 1 && n != want {
		return fmt.Errorf("replica groups of %v hold %d ids, want %d", in.Op, n, want)
	}
	return nil
}

func (in *Instruction) inferCollective(g groupSize) (*Shape, error) {
	switch in.Op {
	case OpCollectivePermute, OpCollectivePermuteStart:
		return in.inferCollectivePermute(g)
	}
	if len(in.Operands) == 0 {
		return nil, fmt.Errorf("%v has no operands", in.Op)
	}
	if err := in.checkGroups(g); err != nil {
		return nil, err
	}
	if err := in.arrays(); err != nil {
		return nil, err
	}
	shapes := in.operandShapes()
	switch in.Op {
	case OpAllReduce, OpAllReduceStart:
		return oneOrTuple(shapes), nil
	case OpRaggedAllToAll:
		for i, s := range shapes[2:] {
			if n := len(s.Dims); n != 1 && n != 2 || !s.sameArray(shapes[2]) {
				return nil, fmt.Errorf("operand %d of ragged-all-to-all is %s: want offsets and sizes of one shape of rank 1 or 2", i+2, s.text())
			}
		}
		return shapes[1].Clone(), nil
	case OpCollectiveBroadcast:
		if !in.Attr.GetHasDynamicRoot() {
			return shapes[0].Clone(), nil
		}
		n := len(shapes) - 1
		if root := shapes[n]; n < 1 || root.Type != S32 || !slices.Equal(root.Dims, []int64{int64(n)}) {
			return nil, fmt.Errorf("collective-broadcast with a dynamic root needs s32[%d] last, has %s", n, shapes[n].text())
		}
		return oneOrTuple(shapes[:n]), nil
	case OpAllToAll:
		return in.inferAllToAll(g)
	}
	return in.inferGatherScatterCollective(g)
}

func (in *Instruction) inferAllToAll(g groupSize) (*Shape, error) {
	shapes, d := in.operandShapes(), in.Dimensions()
	count, err := in.subgroupSize(g)
	if err != nil {
		return nil, err
	}
	if len(d) == 0 {
		if count != 0 && int64(len(shapes)) != count {
			return nil, fmt.Errorf("all-to-all of groups of %d has %d operands", count, len(shapes))
		}
		for _, s := range shapes {
			if !s.sameArray(shapes[0]) || s.isUnbounded() {
				return nil, fmt.Errorf("all-to-all of different layouts or shapes, or of unbounded ones: %s and %s", shapes[0].text(), s.text())
			}
		}
		return tupleOf(shapes), nil
	}
	s := shapes[0]
	if len(d) != 1 || len(shapes) != 1 || !inRange(d, len(s.Dims)) {
		return nil, fmt.Errorf("all-to-all of %d operands along the dimensions %v of %s", len(shapes), d, s.text())
	}
	if slices.Contains(s.Dynamic, true) && !s.isUnbounded() {
		return nil, fmt.Errorf("all-to-all of the dynamic shape %s", s.text())
	}
	if n := s.Dims[d[0]]; n != Unbounded && count != 0 && n%count != 0 {
		return nil, fmt.Errorf("all-to-all of groups of %d along a dimension of %d", count, n)
	}
	return newArray(s.Type, s.Dims, s.Dynamic), nil // split and put together along one dimension
}

// inferGatherScatterCollective is for all-gather, all-gather-start and
// reduce-scatter, whose shard count follows from in.Shape, as in
// hlo_verifier.cc, and must fit the groups where their size is known.
func (in *Instruction) inferGatherScatterCollective(g groupSize) (*Shape, error) {
	shapes, d := in.operandShapes(), in.Dimensions()
	if len(d) != 1 {
		return nil, fmt.Errorf("%v has the dimensions %v, want one", in.Op, d)
	}
	for _, s := range shapes {
		if !inRange(d, len(s.Dims)) {
			return nil, fmt.Errorf("%v along dimension %d of %s", in.Op, d[0], s.text())
		}
	}
	group, err := in.subgroupSize(g)
	if err != nil {
		return nil, err
	}
	count := group
	if in.Shape == nil && group == 0 {
		return nil, fmt.Errorf("the shape of %v does not follow from its operands: its groups are unknown", in.Op)
	}
	if in.Shape != nil {
		out := in.Shape
		if in.Op == OpAllGatherStart {
			if !out.IsTuple() || len(out.Elements) != 2 {
				return nil, fmt.Errorf("all-gather-start needs a shape (operands, results), has %s", out.text())
			}
			out = out.Elements[1]
		}
		if len(shapes) > 1 {
			if !out.IsTuple() || len(out.Elements) != len(shapes) {
				return nil, fmt.Errorf("%v of %d operands gives %s", in.Op, len(shapes), out.text())
			}
			out = out.Elements[0]
		}
		if !out.IsArray() || !inRange(d, len(out.Dims)) {
			return nil, fmt.Errorf("%v along dimension %d gives %s", in.Op, d[0], out.text())
		}
		small, large := shapes[0].Dims[d[0]], out.Dims[d[0]]
		if in.Op == OpReduceScatter {
			small, large = large, small
		}
		count = 1
		if small > 0 && large > 0 {
			count = (large-1)/small + 1
		} else if small == 0 {
			count = max(1, group) // any count fits
		}
		if group > 1 && count != group {
			return nil, fmt.Errorf("%v of %d shards in groups of %d", in.Op, count, group)
		}
	}
	var outs []*Shape
	for _, s := range shapes {
		o, n := s.Clone(), s.Dims[d[0]]
		switch {
		case in.Op == OpReduceScatter:
			if n == Unbounded || n%count != 0 {
				return nil, fmt.Errorf("reduce-scatter of a dimension of %d in %d shards", n, count)
			}
			o.Dims[d[0]] = n / count
			if s.dynamic(int(d[0])) {
				o.Dims[d[0]] = Unbounded
			}
		case n != Unbounded:
			if mulOverflows(n, count) {
				return nil, fmt.Errorf("%v overflows", in.Op)
			}
			o.Dims[d[0]] = n * count
			if o.Dynamic != nil {
				o.Dynamic[d[0]] = false
			}
		}
		outs = append(outs, o)
	}
	result := oneOrTuple(outs)
	if in.Op == OpAllGatherStart {
		result = &Shape{Type: Tuple, Elements: []*Shape{oneOrTuple(shapes), result}}
	}
	return checked(result)
}

// inferCollectivePermute: with slice sizes it is the in-place form of four
// operands: input, output, and the offsets in both.
func (in *Instruction) inferCollectivePermute(g groupSize) (*Shape, error) {
	shapes := in.operandShapes()
	inplace := len(in.Attr.GetDynamicSliceSizes()) > 0
	repeats := 1
	if inplace {
		if len(shapes) != 4 {
			return nil, fmt.Errorf("%v in place has %d operands, want 4", in.Op, len(shapes))
		}
		if shapes[0].IsTuple() != shapes[1].IsTuple() || len(shapes[0].Elements) != len(shapes[1].Elements) {
			return nil, fmt.Errorf("%v in place from %s to %s", in.Op, shapes[0].text(), shapes[1].text())
		}
		for i := range 2 {
			if err := checkOffsets(shapes[i], shapes[i+2]); err != nil {
				return nil, fmt.Errorf("%v: %w", in.Op, err)
			}
		}
		repeats = len(shapes[2].Elements)
		if shapes[0].IsTuple() && len(shapes[2].Elements) > 0 {
			repeats = len(shapes[2].Elements[0].Elements)
		}
	} else if in.Op == OpCollectivePermute || len(shapes) == 1 {
		if err := in.arrays(); err != nil {
			return nil, err
		}
	}
	if err := in.checkPairs(g, repeats); err != nil {
		return nil, err
	}
	if in.Op == OpCollectivePermute {
		if inplace {
			return shapes[1].Clone(), nil
		}
		return oneOrTuple(shapes), nil
	}
	var parts []*Shape
	if inplace {
		parts = []*Shape{shapes[0], shapes[1]}
	} else {
		parts = []*Shape{oneOrTuple(shapes), oneOrTuple(shapes)}
	}
	if in.Shape != nil && in.Shape.IsTuple() && len(in.Shape.Elements) > 2 {
		parts = append(parts, in.Shape.Elements[2:]...) // contexts
	}
	return tupleOf(parts), nil
}

// sameArray compares arrays with dynamic marks and layouts, memory space
// aside; without a layout an array is row-major.
func (s *Shape) sameArray(o *Shape) bool {
	if !s.Compatible(o) {
		return false
	}
	for i := range s.Dims {
		if s.dynamic(i) != o.dynamic(i) {
			return false
		}
	}
	layout := func(s *Shape) *Layout {
		l := s.Layout.Clone()
		if l == nil {
			l = DefaultLayout(len(s.Dims))
		}
		l.MemorySpace = 0
		return l
	}
	return layout(s).String() == layout(o).String()
}

// checkOffsets checks the offset operand for a buffer, or for a tuple of
// buffers: per buffer one offset per dimension, or a tuple of such tuples.
func checkOffsets(buffer, offset *Shape) error {
	if buffer.IsTuple() {
		if !offset.IsTuple() || len(offset.Elements) != len(buffer.Elements) {
			return fmt.Errorf("offsets %s for the buffers %s", offset.text(), buffer.text())
		}
		for i, b := range buffer.Elements {
			if b.IsTuple() {
				return fmt.Errorf("nested buffers %s", buffer.text())
			}
			if err := checkOffsets(b, offset.Elements[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !offset.IsTuple() || len(offset.Elements) == 0 && len(buffer.Dims) != 0 {
		return fmt.Errorf("offsets %s for the buffer %s", offset.text(), buffer.text())
	}
	lists := []*Shape{offset}
	if len(offset.Elements) > 0 && offset.Elements[0].IsTuple() {
		lists = offset.Elements
	}
	for _, l := range lists {
		if !l.IsTuple() || len(l.Elements) != len(buffer.Dims) ||
			slices.ContainsFunc(l.Elements, func(s *Shape) bool { return !s.IsArray() }) {
			return fmt.Errorf("offsets %s for the buffer %s", offset.text(), buffer.text())
		}
	}
	return nil
}

// checkPairs checks source_target_pairs: ids in range, and none more often a
// source or a target than allowed (CheckDuplicatedSourceOrTarget).
func (in *Instruction) checkPairs(g groupSize, repeats int) error {
	mode, err := in.groupMode()
	if err != nil {
		return err
	}
	limit := max(1, g.replicas)
	if mode != crossReplica {
		limit = max(1, g.partitions)
	}
	sources, targets := map[int64]int{}, map[int64]int{}
	for _, p := range in.Attr.GetSourceTargetPairs() {
		s, t := p.GetSource(), p.GetTarget()
		if s < 0 || t < 0 || limit > 1 && (s >= limit || t >= limit) {
			return fmt.Errorf("%v from %d to %d of %d devices", in.Op, s, t, limit)
		}
		sources[s]++
		targets[t]++
		if sources[s] > repeats || targets[t] > repeats {
			return fmt.Errorf("%v names %d twice as source or %d twice as target", in.Op, s, t)
		}
	}
	return nil
}
