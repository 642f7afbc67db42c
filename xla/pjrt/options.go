package pjrt

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Options are the compile options that passgate sets, for one partition.
type Options struct {
	// Overrides are DebugOptions field names and values in flag syntax; every type of field takes the text form
	// (CompileOptions::ApplyOption in xla/pjrt/pjrt_executable.cc), repeated fields a comma list. The values "true" and
	// "false" are sent as "True" and "False", the only spelling of booleans that XLA takes there.
	Overrides map[string]string
	// BackendOnly skips the HLO passes (run_backend_only).
	BackendOnly bool
	// Replicas is the number of replicas; 0 is 1.
	Replicas int
	// Entry, if set, are the shapes that the program's entry computation asks for.
	Entry *EntryShapes
}

// Field numbers of xla/pjrt/proto/compile_options.proto.
const (
	fieldArgumentLayouts  = 1 // CompileOptionsProto
	fieldTupledArguments  = 2
	fieldBuildOptions     = 3
	fieldEnvOverrides     = 7
	fieldResultLayout     = 2 // ExecutableBuildOptionsProto
	fieldNumReplicas      = 4
	fieldNumPartitions    = 5
	fieldRunBackendOnly   = 11
	fieldOverrideAsString = 1 // OptionOverrideProto
)

// Marshal encodes a CompileOptionsProto. DebugOptions itself is never set: that would replace all defaults of the build by
// zeros. The encoding is deterministic.
func (o Options) Marshal() []byte {
	var build, out []byte
	if e := o.Entry; e != nil {
		if e.tupled() {
			out = appendVarint(out, fieldTupledArguments, 1)
		}
		if !e.rowMajor() {
			for _, p := range e.params {
				out = appendBytes(out, fieldArgumentLayouts, p.raw)
			}
			build = appendBytes(build, fieldResultLayout, e.result.raw)
		}
	}
	build = appendVarint(build, fieldNumReplicas, uint64(max(o.Replicas, 1)))
	build = appendVarint(build, fieldNumPartitions, 1)
	if o.BackendOnly {
		build = appendVarint(build, fieldRunBackendOnly, 1)
	}
	out = appendBytes(out, fieldBuildOptions, build)
	for _, name := range slices.Sorted(maps.Keys(o.Overrides)) {
		value := appendBytes(nil, fieldOverrideAsString, []byte(overrideValue(o.Overrides[name])))
		entry := appendBytes(nil, 1, []byte(name))
		entry = appendBytes(entry, 2, value)
		out = appendBytes(out, fieldEnvOverrides, entry)
	}
	return out
}

func overrideValue(v string) string {
	switch v {
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return v
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// EntryShapes are the parameter and result shapes of a module's entry computation, with their layouts. PJRT clients
// ignore the layouts that stand in the module (DetermineArgumentLayoutsFromCompileOptions in xla/pjrt/utils.cc clears them)
// unless the compile options repeat them.
type EntryShapes struct {
	// Aliased says that the module lets results reuse the memory of parameters (input_output_alias).
	Aliased bool
	// Donations are the parameters that the caller gives away (input_output_alias, buffer_donor), in the module's order.
	Donations []Donation

	params []entryShape
	result entryShape
}

// Donation lets a program reuse the memory of a parameter.
type Donation struct {
	// Argument is the argument of the program as PJRT counts them, -1 if it lies inside a tuple among others.
	Argument int
	// Output is the leaf of the result, an array or a flat tuple, that reuses the memory; -1 if any may, or if it lies
	// deeper.
	Output int
	// Must says that it has to.
	Must bool
}

// entryShape is an xla.ShapeProto as far as it matters here.
type entryShape struct {
	raw      []byte
	kind     int32
	layout   []int64 // minor to major; nil if the shape has none
	elements []entryShape
}

const primitiveTuple = 13

// ParseEntry reads host_program_shape of a serialized xla.HloModuleProto (field numbers of xla/service/hlo.proto and
// xla/xla_data.proto).
func ParseEntry(module []byte) (*EntryShapes, error) {
	e := &EntryShapes{}
	seen := false
	var donations []donation
	err := eachBytesField(module, func(n protowire.Number, v []byte) error {
		switch n {
		case 8: // HloModuleProto.input_output_alias
			e.Aliased = e.Aliased || len(v) > 0
			fallthrough
		case 18: // HloModuleProto.buffer_donor
			return eachBytesField(v, func(_ protowire.Number, v []byte) error {
				d, err := parseDonation(v, n == 8)
				donations = append(donations, d)
				return err
			})
		}
		if n != 4 { // HloModuleProto.host_program_shape
			return nil
		}
		seen = true
		return eachBytesField(v, func(n protowire.Number, v []byte) error {
			if n != 1 && n != 2 { // ProgramShapeProto.parameters, result
				return nil
			}
			s, err := parseShape(v, 0)
			if err != nil {
				return err
			}
			if n == 1 {
				e.params = append(e.params, s)
			} else {
				e.result = s
			}
			return nil
		})
	})
	if err == nil && !seen {
		err = fmt.Errorf("module has no host_program_shape")
	}
	if err != nil {
		return nil, fmt.Errorf("read entry shapes: %w", err)
	}
	for _, d := range donations {
		e.Donations = append(e.Donations, e.donation(d))
	}
	return e, nil
}

// donation is an entry of HloInputOutputAliasProto, or of HloBufferDonorProto.
type donation struct {
	alias            bool
	output, argument []int64 // shape indices
	parameter        int64
	must             bool
}

func parseDonation(b []byte, alias bool) (donation, error) {
	d := donation{alias: alias}
	err := eachField(b, func(n protowire.Number, v []byte, x uint64) error {
		if !alias {
			n++ // HloBufferDonorProto.BufferDonorEntryProto has no output_shape_index, its fields stand one earlier
		}
		var err error
		switch n {
		case 1: // output_shape_index
			d.output, err = appendVarints(d.output, v, x)
		case 2: // parameter_number
			d.parameter = int64(x)
		case 3: // parameter_shape_index
			d.argument, err = appendVarints(d.argument, v, x)
		case 4: // kind: MUST_ALIAS = 2
			d.must = x == 2
		}
		return err
	})
	return d, err
}

// donation says which argument and output an entry means.
func (e *EntryShapes) donation(d donation) Donation {
	out := Donation{Argument: -1, Output: -1, Must: d.must}
	switch {
	case e.tupled() && d.parameter == 0 && len(d.argument) == 1:
		out.Argument = int(d.argument[0])
	case !e.tupled() && len(d.argument) == 0:
		out.Argument = int(d.parameter)
	}
	switch flat := !slices.ContainsFunc(e.result.elements, func(s entryShape) bool { return s.kind == primitiveTuple }); {
	case !d.alias:
	case e.result.kind != primitiveTuple && len(d.output) == 0:
		out.Output = 0
	case flat && len(d.output) == 1:
		out.Output = int(d.output[0])
	}
	return out
}

// appendVarints appends the values of a repeated integer field, packed (v) or one by one (x).
func appendVarints(to []int64, v []byte, x uint64) ([]int64, error) {
	if v == nil {
		return append(to, int64(x)), nil
	}
	for len(v) > 0 {
		x, k := protowire.ConsumeVarint(v)
		if k < 0 {
			return to, protowire.ParseError(k)
		}
		to = append(to, int64(x))
		v = v[k:]
	}
	return to, nil
}

func parseShape(b []byte, depth int) (entryShape, error) {
	s := entryShape{raw: b}
	if depth > 64 {
		return s, fmt.Errorf("shape nested more than %d deep", depth)
	}
	err := eachField(b, func(n protowire.Number, v []byte, x uint64) error {
		switch n {
		case 2: // element_type
			s.kind = int32(x)
		case 4: // tuple_shapes
			el, err := parseShape(v, depth+1)
			s.elements = append(s.elements, el)
			return err
		case 5: // layout
			s.layout = []int64{}
			return eachField(v, func(n protowire.Number, v []byte, x uint64) error {
				if n != 1 { // LayoutProto.minor_to_major
					return nil
				}
				var err error
				s.layout, err = appendVarints(s.layout, v, x)
				return err
			})
		}
		return nil
	})
	return s, err
}

// eachField visits the fields of a message; v is set for length-delimited fields, x for varints.
func eachField(b []byte, f func(n protowire.Number, v []byte, x uint64) error) error {
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return protowire.ParseError(k)
		}
		b = b[k:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, k = protowire.ConsumeBytes(b)
			if v == nil {
				v = []byte{}
			}
		case protowire.VarintType:
			x, k = protowire.ConsumeVarint(b)
		default:
			k = protowire.ConsumeFieldValue(n, typ, b)
		}
		if k < 0 {
			return protowire.ParseError(k)
		}
		b = b[k:]
		if err := f(n, v, x); err != nil {
			return err
		}
	}
	return nil
}

func eachBytesField(b []byte, f func(n protowire.Number, v []byte) error) error {
	return eachField(b, func(n protowire.Number, v []byte, _ uint64) error {
		if v == nil {
			return nil
		}
		return f(n, v)
	})
}

// tupled reports a single tuple parameter: PJRT then takes the tuple's elements as arguments.
func (e *EntryShapes) tupled() bool { return len(e.params) == 1 && e.params[0].kind == primitiveTuple }

func (e *EntryShapes) rowMajor() bool {
	for _, p := range e.params {
		if !p.rowMajor() {
			return false
		}
	}
	return e.result.rowMajor()
}

func (s entryShape) rowMajor() bool {
	for _, el := range s.elements {
		if !el.rowMajor() {
			return false
		}
	}
	return slices.Equal(s.layout, RowMajor(len(s.layout)))
}

// ArgumentLayout is the device layout, minor to major, that argument i must have; nil for row-major.
func (e *EntryShapes) ArgumentLayout(i int) []int64 {
	params := e.params
	if e.tupled() {
		params = params[0].elements
	}
	if i >= len(params) || params[i].kind == primitiveTuple || params[i].rowMajor() {
		return nil
	}
	return params[i].layout
}

// Arguments is the number of arguments that the program takes.
func (e *EntryShapes) Arguments() int {
	if e.tupled() {
		return len(e.params[0].elements)
	}
	return len(e.params)
}
