package builds

// Topology names the devices that a compile-only build compiles for, as PJRT_TopologyDescription_Create wants it.
type Topology struct {
	Name string
	// Options are create options with string values.
	Options map[string]string
}

const (
	defaultTPU = "v5e:2x2" // accepted by every libtpu from 0.0.24 on
	defaultGPU = "h200"
)

// libtpuEnv keeps libtpu from looking for a TPU: without TPU_SKIP_MDS_QUERY it asks the metadata server for minutes.
// Whatever TPU_LOG_DIR says, it writes logs beside standard error; at level 3 only those of a process that dies.
var libtpuEnv = []string{
	"TPU_SKIP_MDS_QUERY=1",
	"ALLOW_MULTIPLE_LIBTPU_LOAD=true",
	"TPU_LOG_DIR=disabled",
	"TPU_MIN_LOG_LEVEL=3",
	"TPU_WORKER_HOSTNAMES=localhost",
}

// cudaDist is the distribution that holds the CUDA plugin of a JAX version: the CUDA 13 line starts with 0.7.2.
func cudaDist(version string) string {
	if compareVersions(version, "0.7.2") < 0 {
		return "jax-cuda12-pjrt"
	}
	return "jax-cuda13-pjrt"
}

// gpuTargets are stream_executor.GpuTargetConfigProto texts with the figures of real devices (NVIDIA's data sheets and
// CUDA programming guide, compute capability 9.0).
var gpuTargets = map[string]string{
	"h200": `platform_name: "CUDA"
device_description_str: "NVIDIA H200"
gpu_device_info {
  cuda_compute_capability { major: 9 minor: 0 }
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  memory_bandwidth: 4800000000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 151397597184
}
`,
}

// topology is what a compile-only spec asks the plugin for; nil for executable builds.
func (s Spec) topology() *Topology {
	switch {
	case s.Target == "":
		return nil
	case s.Source == CUDA:
		return &Topology{Options: map[string]string{"target_config": gpuTargets[s.Target], "topology": "1x1x1"}}
	default:
		return &Topology{Name: s.Target}
	}
}
