/*# The host's side of NAME.cu, behind the kernel's text: a plan is what depends on addresses and sizes alone, done once. #*/

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
namespace {

using Plan = ${ out.name }_plan;

thread_local char reason[200] = "";  // of the last refusal

template <typename... Values>
cudaError_t refuse(cudaError_t error, const char* format, Values... values)
{
    std::snprintf(reason, sizeof reason, format, values...);
    return error;
}

// What a launch answers. Of a device for which nothing was compiled CUDA says either of two things.
cudaError_t started(cudaError_t status)
{
    if (status != cudaErrorInvalidDeviceFunction && status != cudaErrorNoKernelImageForDevice) return status;
    return refuse(cudaErrorNoKernelImageForDevice, "%s was not compiled for the device", "${ out.name }");
}

//% if not out.run_by.all_known
// Whether the build has the kernel for the current device, which is asked once of each. For other architectures it is a
// kernel of no code and of one thread per block.
cudaError_t compiled_here()
{
    static std::atomic<unsigned long long> known;  // a bit for each of the first 64 devices
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    const unsigned long long bit = device < 64 ? 1ULL << device : 0;
    if (status != cudaSuccess || (known & bit) != 0) return status;
    cudaFuncAttributes attributes = {};
    status = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(${ out.name }_impl::${ out.name }));
    if (status != cudaSuccess) cudaGetLastError();  // the status says it
    if (status == cudaSuccess && attributes.maxThreadsPerBlock < ${ out.launch.threads }) status = cudaErrorNoKernelImageForDevice;
    if (status == cudaSuccess) known |= bit;
    return started(status);
}

//% endif
// Of each call that takes a plan.
cudaError_t begin(const void* plan)
{
    reason[0] = '\0';
    return plan == nullptr ? refuse(cudaErrorInvalidValue, "%s is null", "plan") : cudaSuccess;
}

/*% if out.packed %*/
// That an address is given, and a multiple of `align` bytes.
cudaError_t check(const char* name, const void* address, unsigned align)
{
    if (address == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", name);
    if (reinterpret_cast<std::uintptr_t>(address) % align == 0) return cudaSuccess;
    return refuse(cudaErrorMisalignedAddress, "%s = %p is no multiple of %u bytes", name, address, align);
}

/*% endif %*/
/*% if out.prepared %*/
/*% include "export/launcher/start.cu" %*/

/*% endif %*/
size_t tiles_of(size_t size, size_t tile) { return (size + tile - 1) / tile; }
/*% if out.launch.row_groups %*/

// Rows of tiles that groups can have at most: each group that has a row begins with a tile of its own.
size_t tiles_of_groups(size_t rows, size_t tile)
{
    const size_t groups = std::min<size_t>(rows, ${ out.launch.row_groups });
    return groups + (rows - groups) / tile;
}
/*% endif %*/
/*% if out.launch.leaves_partials %*/

size_t tiles_of_c(${ out.tile_sizes | map("replace", "", "int ", 1) | join(", ") }) { return ${ out.tiles }; }
/*% endif %*/
/*% if out.padded %*/

// Elements from one line of a copy to the next: whole chunks of 16 bytes.
size_t copy_ld(size_t length, size_t chunk) { return tiles_of(std::max<size_t>(length, 1), chunk) * chunk; }
/*% endif %*/
/*% if out.parts %*/

// Where the parts of the workspace begin, and the bytes of all.
struct Workspace {
    size_t ${ out.parts | map(attribute="name") | join(", ") }, bytes;
};

Workspace workspace_of(${ out.workspace_sizes | map("replace", "", "int ", 1) | join(", ") })
{
    Workspace at = {};
    const auto place = [&at](size_t bytes) {
        const size_t begin = at.bytes;
        at.bytes += tiles_of(bytes, ${ out.workspace_align }) * ${ out.workspace_align };
        return begin;
    };
//% for part in out.parts
    at.${ part.name } = place(${ part.bytes });
//% endfor
    return at;
}
/*% endif %*/
/*% if out.maps.encoded %*/

//% include "export/launcher/maps.cu"
/*% endif %*/

}  // namespace

extern "C" {

//% set sizes = out.runtime_sizes | join(", ")
size_t ${ out.name }_workspace_bytes(
//%- for size in out.runtime_sizes
int${ " " ~ size if size in out.workspace_sizes }${ ", " if not loop.last }
//%- endfor
) { return ${ "workspace_of(%s).bytes" | format(out.workspace_sizes | join(", ")) if out.parts else "0" }; }

const char* ${ out.name }_refusal(void) { return reason; }

/*% include "export/launcher/make_plan.cu" %*/
/*% if out.packed %*/

/*% include "export/launcher/packed.cu" %*/
/*% endif %*/

/*% for operand in ("A", "B") %*/
/*% include "export/launcher/prepare.cu" %*/

/*% endfor %*/
cudaError_t ${ out.name }_run_prepared(const Plan* plan, cudaStream_t stream)
{
//% include "export/launcher/unfold.cu"
//% if out.launch.shared_bytes
    // A device's limit, not a launch's: asked for each time, since the current device may have changed.
    const cudaError_t raised = cudaFuncSetAttribute(${ out.name }_impl::${ out.name }, cudaFuncAttributeMaxDynamicSharedMemorySize, ${ out.launch.shared_bytes });
    if (raised != cudaSuccess)
        return raised != cudaErrorInvalidValue ? started(raised) : refuse(cudaErrorInvalidConfiguration,
            "no block gets %d bytes of shared memory: %s", ${ out.launch.shared_bytes }, cudaGetErrorName(raised));
//% endif
//% for name, elements in out.amaxes.items()
    const cudaError_t ${ name }_set = cudaMemsetAsync(${ name }, 0, sizeof(${ out.element[name] }) * ${ elements }, stream);
    if (${ name }_set != cudaSuccess) return ${ name }_set;
//% endfor
//% from "export/launcher/config.cu" import configuration, start with context
//% if out.prepared
    return ${ start(out.name ~ "_impl::" ~ out.name, "blocks", out.launch.threads, out.launch.shared_bytes, out.dependent, out.passed) };
//% else
${ configuration("blocks", out.launch.threads, out.launch.shared_bytes, "1") }
    return started(cudaLaunchKernelEx(&config, ${ out.name }_impl::${ out.name }, ${ out.passed | join(", ") }));
//% endif
}

//% if out.parts
cudaError_t ${ out.name }_run(const Plan* plan, cudaStream_t stream)
{
    cudaError_t status = ${ out.name }_prepare_a(plan, stream);
    if (status == cudaSuccess) status = ${ out.name }_prepare_b(plan, stream);
    return status == cudaSuccess ? ${ out.name }_run_prepared(plan, stream) : status;
}
//% else
cudaError_t ${ out.name }_run(const Plan* plan, cudaStream_t stream) { return ${ out.name }_run_prepared(plan, stream); }
/*% endif %*/

cudaError_t ${ out.name }_launch(
${ out.declared(out.arguments, behind="cudaStream_t stream") })
{
    Plan plan;
    const cudaError_t status = ${ out.name }_make_plan(&plan, ${ out.arguments | map(attribute="text") | join(", ") });
    return status == cudaSuccess ? ${ out.name }_run(&plan, stream) : status;
}

}  // extern "C"
}  // namespace ${ out.name }_impl
//% for name, _ in renamed
#undef ${ name }
//% endfor
#endif  // __CUDACC__ && !__CUDACC_RTC__
//% if not out.run_by.all_known
#else
//% include "export/launcher/left_out.cu"
//% if alone
//% set name, run_by, flags = out.name, out.run_by, out.nvcc_arch
//% include "export/architectures.cu"
//% endif
#endif
//% endif
