package hlo

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/passgate/passgate/hlo/hlopb"
)

// maxListedDevices bounds device lists that the text does not spell out.
const maxListedDevices = 1 << 20

// sharding reads '{' one sharding, or several of them in braces, '}'.
func (p *parser) sharding() *hlopb.OpSharding {
	p.expect('{', "to start a sharding")
	if p.tok.kind != '{' && p.tok.kind != '}' {
		return p.oneSharding()
	}
	s := &hlopb.OpSharding{Type: hlopb.OpSharding_TUPLE}
	if p.tok.kind != '}' {
		for {
			p.expect('{', "to start the sharding of a tuple element")
			s.TupleShardings = append(s.TupleShardings, p.oneSharding())
			if !p.eat(',') {
				break
			}
		}
	}
	p.expect('}', "at the end of a sharding")
	return s
}

// tupleSharding gives every leaf of a tuple shape the sharding
// (HloSharding::NormalizeTupleSharding).
func (p *parser) tupleSharding(s *hlopb.OpSharding, shape *Shape) *hlopb.OpSharding {
	if !shape.IsTuple() || s.Type == hlopb.OpSharding_TUPLE {
		return s
	}
	n := max(1, len(shape.Leaves()))
	p.spare -= int64(n) * int64(1+len(s.TileAssignmentDevices)/8+len(s.Metadata))
	if p.spare < 0 {
		p.fail(p.tok.pos, "the shardings of tuples are too large")
	}
	t := &hlopb.OpSharding{Type: hlopb.OpSharding_TUPLE}
	for range n {
		t.TupleShardings = append(t.TupleShardings, proto.Clone(s).(*hlopb.OpSharding))
	}
	return t
}

var shardingTypes = map[string]hlopb.OpSharding_Type{
	"maximal": hlopb.OpSharding_MAXIMAL, "replicated": hlopb.OpSharding_REPLICATED, "manual": hlopb.OpSharding_MANUAL,
	"unknown": hlopb.OpSharding_UNKNOWN, "unreduced": hlopb.OpSharding_UNREDUCED,
}

// oneSharding reads a sharding behind its '{', with its '}'.
func (p *parser) oneSharding() *hlopb.OpSharding {
	if p.tok.kind == tokIdent && (p.tok.text == "mesh" || p.tok.text == "maximal_mesh") {
		return &hlopb.OpSharding{NamedSharding: p.namedSharding()}
	}
	pos := p.tok.pos
	var (
		plain         = map[hlopb.OpSharding_Type]bool{}
		devices       []int64
		t             tiles
		tiled         bool
		lastReplicate bool
		subgroups     []hlopb.OpSharding_Type
		metadata      []*hlopb.OpMetadata
		group         *hlopb.OpSharding
	)
	for p.tok.kind != '}' {
		switch {
		case p.tok.kind == tokAttr:
			switch name := p.attrName(""); name {
			case "device":
				devices = []int64{p.int("a device")}
			case "devices":
				t = p.tiles(true)
				tiled = true
				devices = t.devices
			case "metadata":
				metadata = append(metadata, p.metadataList()...)
			case "last_tile_dims":
				p.list('{', '}', "sharding types", func() {
					typ, ok := shardingTypes[p.tok.text]
					if p.tok.kind != tokKeyword || !ok || typ == hlopb.OpSharding_UNKNOWN {
						p.expected("maximal, replicated, manual or unreduced")
					}
					subgroups = append(subgroups, typ)
					p.next()
				})
			default:
				p.fail(pos, "a sharding has no attribute %s (it has device, devices, last_tile_dims, metadata)", name)
			}
		case p.eatKeyword("last_tile_dim_replicate"):
			lastReplicate = true
		case p.atKeyword("shard_as"), p.atKeyword("shard_like"):
			typ := hlopb.OpSharding_LIKE
			if p.tok.text == "shard_as" || group != nil && group.ShardGroupType == hlopb.OpSharding_AS {
				typ = hlopb.OpSharding_AS
			}
			p.next()
			group = &hlopb.OpSharding{IsShardGroup: true, ShardGroupType: typ, ShardGroupId: p.int("a shard group")}
		default:
			typ, ok := shardingTypes[p.tok.text]
			if p.tok.kind != tokKeyword || !ok {
				p.expected("a sharding")
			}
			plain[typ] = true
			p.next()
		}
	}
	p.next()

	var s *hlopb.OpSharding
	for _, typ := range []hlopb.OpSharding_Type{hlopb.OpSharding_REPLICATED, hlopb.OpSharding_MAXIMAL,
		hlopb.OpSharding_MANUAL, hlopb.OpSharding_UNKNOWN, hlopb.OpSharding_UNREDUCED} {
		if !plain[typ] {
			continue
		}
		s = &hlopb.OpSharding{Type: typ}
		switch {
		case typ == hlopb.OpSharding_MAXIMAL && len(devices) == 1:
			s.TileAssignmentDevices = devices
		case typ == hlopb.OpSharding_MAXIMAL:
			p.fail(pos, "a maximal sharding needs exactly one device")
		case len(devices) > 0:
			p.fail(pos, "a %s sharding has no devices", strings.ToLower(typ.String()))
		}
		break
	}
	if s == nil {
		if !tiled {
			p.fail(pos, "expected devices= for a tiled sharding")
		}
		if t.devices != nil && len(t.devices) <= 1 {
			p.fail(pos, "a tiled sharding needs more than one device")
		}
		if n := product(t.dims); t.devices != nil && n != int64(len(t.devices)) {
			p.fail(pos, "a sharding of %d tiles has %d devices", n, len(t.devices))
		}
		if lastReplicate {
			if len(subgroups) > 0 {
				p.fail(pos, "last_tile_dim_replicate and last_tile_dims exclude each other")
			}
			subgroups = []hlopb.OpSharding_Type{hlopb.OpSharding_REPLICATED}
		}
		if len(subgroups) > len(t.dims) {
			p.fail(pos, "%d last tile dimensions of %d", len(subgroups), len(t.dims))
		}
		if t.devices == nil && len(subgroups) > 0 && product(t.dims) > maxListedDevices {
			p.fail(pos, "a sharding with subgroups over more than %d devices is not supported", maxListedDevices)
		}
		s = subgroupSharding(t, subgroups)
	}
	s.Metadata = metadata
	if s.Type == hlopb.OpSharding_UNREDUCED || slices.Contains(s.LastTileDims, hlopb.OpSharding_UNREDUCED) {
		reduction := func(m *hlopb.OpMetadata) bool { return m.OpType == "sdy::reduction_op" }
		if !slices.ContainsFunc(metadata, reduction) {
			s.Metadata = append(s.Metadata, &hlopb.OpMetadata{OpType: "sdy::reduction_op", OpName: "SUM"})
		}
	}
	if group != nil {
		s.IsShardGroup, s.ShardGroupType, s.ShardGroupId = true, group.ShardGroupType, group.ShardGroupId
	}
	return s
}

// tiles reads '[' dims ']' and a device list or '<=' iota.
func (p *parser) tiles(listed bool) tiles {
	pos := p.tok.pos
	var t tiles
	p.list('[', ']', "tile dimensions", func() { t.dims = append(t.dims, p.tileSize(t.dims)) })
	if len(t.dims) == 0 {
		p.fail(pos, "expected at least one tile dimension")
	}
	if p.eat(tokLeq) {
		reshape, perm := p.iota()
		if product(reshape) != product(t.dims) {
			p.fail(pos, "iota of size %d does not fit %d tiles", product(reshape), product(t.dims))
		}
		return iotaTiles(t.dims, reshape, perm)
	}
	if !listed {
		p.expected("'<=' and an iota")
	}
	for {
		t.devices = append(t.devices, p.int("a device"))
		if !p.eat(',') {
			return t
		}
	}
}

// maxTileRank bounds the dimensions of tiles, iotas and meshes, whose normal
// form takes quadratic time.
const maxTileRank = 256

// tileSize reads the next of some sizes.
func (p *parser) tileSize(before []int64) int64 {
	pos := p.tok.pos
	n := p.int("a size")
	if n < 1 || n > math.MaxInt64/product(before) {
		p.fail(pos, "size %d is out of range", n)
	}
	if len(before) == maxTileRank {
		p.fail(pos, "more than %d dimensions", maxTileRank)
	}
	return n
}

// iota reads '[' reshape dims ']' and, if they are several, 'T(' perm ')'.
func (p *parser) iota() (reshape []int64, perm []int) {
	pos := p.tok.pos
	p.list('[', ']', "iota dimensions", func() { reshape = append(reshape, p.tileSize(reshape)) })
	switch len(reshape) {
	case 0:
		p.fail(pos, "expected at least one iota dimension")
	case 1:
		return reshape, []int{0}
	}
	if !p.eatIdent("T") {
		p.expected("the transposition T(...) of an iota")
	}
	pos = p.tok.pos
	p.list('(', ')', "a transposition", func() {
		d := p.int("a dimension")
		if d < 0 || d >= int64(len(reshape)) || slices.Contains(perm, int(d)) { // at most maxTileRank of them
			p.fail(pos, "expected a permutation of %d dimensions", len(reshape))
		}
		perm = append(perm, int(d))
	})
	if len(perm) != len(reshape) {
		p.fail(pos, "expected a permutation of %d dimensions, found %d", len(reshape), len(perm))
	}
	return reshape, perm
}

// mesh reads mesh['x'=2,'y'=4], device_ids=(...) or maximal_mesh[device_id=3].
// pos is reported for a mesh that is none.
func (p *parser) mesh() *hlopb.MeshProto {
	pos := p.tok.pos
	maximal := p.tok.text == "maximal_mesh"
	p.next()
	m := &hlopb.MeshProto{}
	if maximal {
		p.expect('[', "behind maximal_mesh")
		if a := p.attrName("device_id"); a != "device_id" {
			p.fail(pos, "expected device_id= in maximal_mesh, found %s=", a)
		}
		m.DeviceIds = []int64{p.int("a device")}
		p.expect(']', "at the end of maximal_mesh")
		return m
	}
	var sizes []int64
	p.list('[', ']', "mesh axes", func() {
		axis := &hlopb.MeshProto_MeshAxis{Name: p.string("an axis name")}
		p.expect('=', "behind an axis name")
		axis.Size = p.tileSize(sizes)
		if slices.ContainsFunc(m.Axes, func(a *hlopb.MeshProto_MeshAxis) bool { return a.Name == axis.Name }) {
			p.fail(pos, "mesh axis %q exists twice", axis.Name)
		}
		m.Axes = append(m.Axes, axis)
		sizes = append(sizes, axis.Size)
	})
	if len(sizes) == 0 || !p.deviceIDsAhead() {
		return m
	}
	p.next()
	p.next()
	p.expect('(', "before device ids")
	if p.tok.kind == '[' {
		reshape, perm := p.iota()
		p.expect(')', "behind device ids")
		if product(reshape) != product(sizes) {
			p.fail(pos, "an iota of size %d does not fit a mesh of size %d", product(reshape), product(sizes))
		}
		t := iotaTiles(sizes, reshape, perm)
		if len(t.reshape) > 1 {
			m.IotaTransform = &hlopb.MeshProto_IotaTransform{ReshapeDims: t.reshape}
			for _, d := range t.perm {
				m.IotaTransform.TransposePerm = append(m.IotaTransform.TransposePerm, int64(d))
			}
		}
		return m
	}
	for p.tok.kind != ')' {
		m.DeviceIds = append(m.DeviceIds, p.int("a device"))
		if !p.eat(',') {
			break
		}
	}
	p.expect(')', "at the end of device ids")
	if int64(len(m.DeviceIds)) != product(sizes) {
		p.fail(pos, "expected %d device ids for the mesh, found %d", product(sizes), len(m.DeviceIds))
	}
	sorted := slices.Sorted(slices.Values(m.DeviceIds))
	for i, d := range sorted {
		if d != int64(i) {
			p.fail(pos, "the device ids of a mesh are not a permutation of 0 to %d", len(sorted)-1)
		}
	}
	if slices.Equal(sorted, m.DeviceIds) {
		p.fail(pos, "the device ids of a mesh are 0, 1, 2, ...: leave them out")
	}
	return m
}

// deviceIDsAhead reports whether ', device_ids=' follows.
func (p *parser) deviceIDsAhead() bool {
	if p.tok.kind != ',' {
		return false
	}
	save := p.lexer
	p.next()
	ok := p.tok.kind == tokAttr && p.tok.text == "device_ids"
	p.lexer = save
	return ok
}

// axis reads 'name' or 'name':(pre)size. A name may also be the axis' number.
func (p *parser) axis(m *hlopb.MeshProto) *hlopb.AxisRefProto {
	pos := p.tok.pos
	name := p.string("a mesh axis")
	i := slices.IndexFunc(m.Axes, func(a *hlopb.MeshProto_MeshAxis) bool { return a.Name == name })
	if i < 0 {
		n, err := strconv.ParseInt(name, 10, 64)
		if err != nil || n < 0 || n >= int64(len(m.Axes)) {
			p.fail(pos, "%q is no axis of the mesh", name)
		}
		i = int(n)
	}
	a := &hlopb.AxisRefProto{MeshAxisIndex: int64(i)}
	if p.eat(':') {
		a.SubAxisInfo = &hlopb.AxisRefProto_SubAxis{PreSize: p.parenInt("a pre-size"), Size: p.int("a size")}
	}
	return a
}

func (p *parser) axes(m *hlopb.MeshProto) []*hlopb.AxisRefProto {
	var as []*hlopb.AxisRefProto
	p.list('{', '}', "mesh axes", func() { as = append(as, p.axis(m)) })
	return as
}

// reduction reads the sum, max or min of an unreduced sharding.
func (p *parser) reduction() hlopb.NamedShardingProto_ReductionOpProto {
	ops := []string{"sum", "max", "min"}
	i := slices.Index(ops, p.tok.text)
	if p.tok.kind != tokIdent && p.tok.kind != tokAttr || i < 0 {
		p.expected("sum, max or min")
	}
	p.next()
	return hlopb.NamedShardingProto_ReductionOpProto(i)
}

// namedSharding reads a sharding over a named mesh, with its '}'.
func (p *parser) namedSharding() *hlopb.NamedShardingProto {
	s := &hlopb.NamedShardingProto{Mesh: p.mesh()}
	metadata := func() {
		if !p.eat(',') {
			return
		}
		pos := p.tok.pos
		if a := p.attrName("metadata"); a != "metadata" {
			p.fail(pos, "expected metadata=, found %s=", a)
		}
		s.Metadata = append(s.Metadata, p.metadataList()...)
	}
	every := func() (as []*hlopb.AxisRefProto) {
		for i := range s.Mesh.Axes {
			as = append(as, &hlopb.AxisRefProto{MeshAxisIndex: int64(i)})
		}
		return as
	}
	maximal := len(s.Mesh.Axes) == 0 && len(s.Mesh.DeviceIds) > 0
	if !maximal {
		p.eat(',')
	}
	unreduced := p.tok.kind == tokAttr && p.tok.text == "unreduced"
	switch {
	case maximal, p.eatKeyword("replicated"):
		metadata()
	case unreduced, p.atKeyword("unreduced"):
		p.next()
		if unreduced || p.eat('=') {
			s.ReductionOp = p.reduction()
		}
		if p.tok.kind == '{' {
			s.UnreducedAxes = p.axes(s.Mesh)
		} else {
			s.UnreducedAxes = every()
		}
		metadata()
	case p.eatKeyword("manual"):
		s.ManualAxes = every()
		metadata()
	default:
		p.list('[', ']', "dimension shardings", func() {
			d := &hlopb.NamedShardingProto_DimensionSharding{IsClosed: true}
			p.list('{', '}', "a dimension sharding", func() {
				if !d.IsClosed {
					p.fail(p.tok.pos, "an axis behind '?'")
				}
				if p.eat('?') {
					d.IsClosed = false
					return
				}
				d.Axes = append(d.Axes, p.axis(s.Mesh))
			})
			s.DimShardings = append(s.DimShardings, d)
		})
		for p.eat(',') {
			pos := p.tok.pos
			switch a := p.attrName("an attribute"); a {
			case "replicated":
				s.ReplicatedAxes = p.axes(s.Mesh)
			case "unreduced":
				if p.tok.kind == tokIdent || p.tok.kind == tokAttr {
					s.ReductionOp = p.reduction()
				}
				s.UnreducedAxes = p.axes(s.Mesh)
			case "manual":
				s.ManualAxes = p.axes(s.Mesh)
			case "metadata":
				s.Metadata = append(s.Metadata, p.metadataList()...)
			default:
				p.fail(pos, "a sharding over a mesh has no attribute %s (it has replicated, unreduced, manual, metadata)", a)
			}
		}
	}
	p.expect('}', "at the end of a sharding")
	return s
}

// replicaGroups reads a list of groups, an iota, or axes of a mesh.
func (p *parser) replicaGroups(a *pbInstr) {
	switch {
	case p.tok.kind == '{':
		l := &hlopb.CollectiveDeviceListProto{}
		p.list('{', '}', "replica groups", func() {
			l.ReplicaGroups = append(l.ReplicaGroups, &hlopb.ReplicaGroup{ReplicaIds: p.ints("a replica group")})
		})
		a.ReplicaGroupList = &hlopb.HloInstructionProto_CollectiveDeviceList{CollectiveDeviceList: l}
	case p.tok.kind == tokIdent && (p.tok.text == "mesh" || p.tok.text == "maximal_mesh"):
		m := &hlopb.MeshAxesReplicaGroupListProto{Mesh: p.mesh()}
		m.Axes = p.axes(m.Mesh)
		a.ReplicaGroupList = &hlopb.HloInstructionProto_MeshAxesReplicaGroupList{MeshAxesReplicaGroupList: m}
	default:
		pos := p.tok.pos
		t := p.tiles(false)
		if len(t.dims) != 2 {
			p.fail(pos, "expected groups and devices per group, found %d dimensions", len(t.dims))
		}
		s := t.sharding()
		a.ReplicaGroupList = &hlopb.HloInstructionProto_IotaCollectiveDeviceList{
			IotaCollectiveDeviceList: &hlopb.IotaReplicaGroupListProto{
				NumReplicaGroups: t.dims[0], NumDevicesPerGroup: t.dims[1],
				IotaReshapeDims: s.IotaReshapeDims, IotaTransposePerm: s.IotaTransposePerm,
			},
		}
	}
}

func replicaGroupsText(a *pbInstr) string {
	switch {
	case a.GetIotaCollectiveDeviceList() != nil:
		l := a.GetIotaCollectiveDeviceList()
		return iotaText([]int64{l.NumReplicaGroups, l.NumDevicesPerGroup}, l.IotaReshapeDims, l.IotaTransposePerm)
	case a.GetMeshAxesReplicaGroupList() != nil:
		l := a.GetMeshAxesReplicaGroupList()
		return meshText(l.Mesh) + " {" + axesText(l.Mesh, l.Axes, ",") + "}"
	}
	groups := a.GetCollectiveDeviceList().GetReplicaGroups()
	if a.ReplicaGroupList == nil {
		groups = a.ReplicaGroups // older builds
	}
	b := []byte{'{'}
	for i, g := range groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendInts(b, g.ReplicaIds, ",")
		b = append(b, '}')
	}
	return string(append(b, '}'))
}

func iotaText(dims, reshape []int64, perm []int32) string {
	b := []byte{'['}
	b = appendInts(b, dims, ",")
	b = append(b, "]<=["...)
	b = appendInts(b, reshape, ",")
	b = append(b, ']')
	if len(reshape) > 1 {
		b = append(b, "T("...)
		b = appendInts(b, perm, ",")
		b = append(b, ')')
	}
	return string(b)
}

func meshText(m *hlopb.MeshProto) string {
	if len(m.GetAxes()) == 0 && len(m.GetDeviceIds()) > 0 {
		return "maximal_mesh[device_id=" + strconv.FormatInt(m.DeviceIds[0], 10) + "]"
	}
	var axes []string
	for _, a := range m.GetAxes() {
		axes = append(axes, "'"+escape(a.Name)+"'="+strconv.FormatInt(a.Size, 10))
	}
	s := "mesh[" + strings.Join(axes, ",") + "]"
	switch t := m.GetIotaTransform(); {
	case len(t.GetReshapeDims()) > 0:
		s += ", device_ids=([" + string(appendInts(nil, t.ReshapeDims, ",")) + "]"
		if len(t.ReshapeDims) > 1 {
			s += "T(" + string(appendInts(nil, t.TransposePerm, ",")) + ")"
		}
		s += ")"
	case len(m.GetDeviceIds()) > 0:
		s += ", device_ids=(" + string(appendInts(nil, m.DeviceIds, ",")) + ")"
	}
	return s
}

func axesText(m *hlopb.MeshProto, axes []*hlopb.AxisRefProto, sep string) string {
	var out []string
	for _, a := range axes {
		name := strconv.FormatInt(a.MeshAxisIndex, 10)
		if i := a.MeshAxisIndex; i >= 0 && i < int64(len(m.GetAxes())) {
			name = escape(m.Axes[i].Name)
		}
		s := "'" + name + "'"
		if sub := a.SubAxisInfo; sub != nil {
			s += ":(" + strconv.FormatInt(sub.PreSize, 10) + ")" + strconv.FormatInt(sub.Size, 10)
		}
		out = append(out, s)
	}
	return strings.Join(out, sep)
}

// shardingText is a sharding with its braces. Metadata is left out where the
// printer does so.
func (pr *printer) shardingText(s *hlopb.OpSharding) string {
	if s.NamedSharding != nil {
		return pr.namedShardingText(s.NamedSharding)
	}
	if s.Type == hlopb.OpSharding_TUPLE {
		b := []byte{'{'}
		for i, e := range s.TupleShardings {
			if i > 0 {
				b = appendIndexed(b, i)
			}
			b = append(b, pr.shardingText(e)...)
		}
		return string(append(b, '}'))
	}
	var b []byte
	switch s.Type {
	case hlopb.OpSharding_OTHER:
		if len(s.IotaReshapeDims) > 0 {
			b = append(b, "devices="+iotaText(s.TileAssignmentDimensions, s.IotaReshapeDims, s.IotaTransposePerm)...)
		} else {
			b = append(b, "devices=["...)
			b = appendInts(b, s.TileAssignmentDimensions, ",")
			b = append(b, ']')
			b = appendInts(b, s.TileAssignmentDevices, ",")
		}
		if s.ReplicateOnLastTileDim {
			b = append(b, " last_tile_dim_replicate"...)
		}
		if len(s.LastTileDims) > 0 {
			var types []string
			for _, t := range s.LastTileDims {
				types = append(types, strings.ToLower(t.String()))
			}
			b = append(b, " last_tile_dims={"+strings.Join(types, ", ")+"}"...)
		}
	case hlopb.OpSharding_MAXIMAL:
		b = append(b, "maximal device="...)
		b = appendInts(b, s.TileAssignmentDevices[:min(1, len(s.TileAssignmentDevices))], ",")
	default:
		b = append(b, strings.ToLower(s.Type.String())...)
	}
	if s.IsShardGroup {
		b = append(b, " shard_"+strings.ToLower(s.ShardGroupType.String())+" "...)
		b = strconv.AppendInt(b, s.ShardGroupId, 10)
	}
	if m := pr.metadataListText(s.Metadata); m != "" {
		b = append(b, " metadata="+m...)
	}
	return "{" + string(b) + "}"
}

func (pr *printer) namedShardingText(s *hlopb.NamedShardingProto) string {
	b := "{" + meshText(s.Mesh)
	op := ""
	if s.ReductionOp != hlopb.NamedShardingProto_SUM {
		op = strings.ToLower(s.ReductionOp.String())
	}
	bare := len(s.DimShardings) == 0
	whole := func(axes []*hlopb.AxisRefProto) bool {
		if len(axes) != len(s.Mesh.GetAxes()) || len(axes) == 0 {
			return false
		}
		for i, a := range axes {
			if a.MeshAxisIndex != int64(i) || a.SubAxisInfo != nil {
				return false
			}
		}
		return true
	}
	nr, nu, nm := len(s.ReplicatedAxes), len(s.UnreducedAxes), len(s.ManualAxes)
	switch {
	case len(s.Mesh.GetAxes()) == 0 && len(s.Mesh.GetDeviceIds()) > 0:
	case bare && nr+nu+nm == 0:
		b += ", replicated"
	case bare && nr+nu == 0 && whole(s.ManualAxes):
		b += ", manual"
	case bare && nr+nm == 0 && whole(s.UnreducedAxes):
		b += ", unreduced"
		if op != "" {
			b += "=" + op
		}
	default:
		var dims []string
		for _, d := range s.DimShardings {
			t := axesText(s.Mesh, d.Axes, ", ")
			if !d.IsClosed {
				if t != "" {
					t += ", "
				}
				t += "?"
			}
			dims = append(dims, "{"+t+"}")
		}
		b += ", [" + strings.Join(dims, ", ") + "]"
		if nr > 0 {
			b += ", replicated={" + axesText(s.Mesh, s.ReplicatedAxes, ", ") + "}"
		}
		if nu > 0 {
			b += ", unreduced=" + op + "{" + axesText(s.Mesh, s.UnreducedAxes, ", ") + "}"
		}
		if nm > 0 {
			b += ", manual={" + axesText(s.Mesh, s.ManualAxes, ", ") + "}"
		}
	}
	if m := pr.metadataListText(s.Metadata); m != "" {
		b += ", metadata=" + m
	}
	return b + "}"
}
