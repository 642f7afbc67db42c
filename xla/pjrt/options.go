package pjrt

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of xla/pjrt/proto/compile_options.proto.
const (
	fieldBuildOptions     = 3 // CompileOptionsProto.executable_build_options
	fieldEnvOverrides     = 7 // CompileOptionsProto.env_option_overrides
	fieldNumReplicas      = 4 // ExecutableBuildOptionsProto
	fieldNumPartitions    = 5
	fieldRunBackendOnly   = 11
	fieldOverrideAsString = 1 // OptionOverrideProto.string_field
)

// CompileOptions encodes a CompileOptionsProto for one replica and one partition. overrides are DebugOptions field names
// and values in flag syntax; every type of field takes the text form (CompileOptions::ApplyOption in
// xla/pjrt/pjrt_executable.cc), repeated fields a comma list. DebugOptions itself is never set: that would replace all
// defaults of the build by zeros. The encoding is deterministic.
func CompileOptions(overrides map[string]string, backendOnly bool) []byte {
	var build []byte
	build = protowire.AppendTag(build, fieldNumReplicas, protowire.VarintType)
	build = protowire.AppendVarint(build, 1)
	build = protowire.AppendTag(build, fieldNumPartitions, protowire.VarintType)
	build = protowire.AppendVarint(build, 1)
	if backendOnly {
		build = protowire.AppendTag(build, fieldRunBackendOnly, protowire.VarintType)
		build = protowire.AppendVarint(build, 1)
	}
	out := protowire.AppendTag(nil, fieldBuildOptions, protowire.BytesType)
	out = protowire.AppendBytes(out, build)
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		value := protowire.AppendTag(nil, fieldOverrideAsString, protowire.BytesType)
		value = protowire.AppendString(value, overrides[name])
		entry := protowire.AppendTag(nil, 1, protowire.BytesType)
		entry = protowire.AppendString(entry, name)
		entry = protowire.AppendTag(entry, 2, protowire.BytesType)
		entry = protowire.AppendBytes(entry, value)
		out = protowire.AppendTag(out, fieldEnvOverrides, protowire.BytesType)
		out = protowire.AppendBytes(out, entry)
	}
	return out
}
