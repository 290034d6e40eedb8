/*# NAME_make_plan, NAME_run and NAME_launch of a kernel that takes tensor maps, or copies of operands: what depends on addresses and sizes
    alone is done once. #*/
//% set major, minor = out.capability
namespace {

thread_local char reason[200] = "";  // of the last refusal

template <typename... Values>
cudaError_t refuse(cudaError_t error, const char* format, Values... values)
{
    std::snprintf(reason, sizeof reason, format, values...);
    return error;
}
/*% if out.copies %*/

// Elements from one line of a copy to the next: whole chunks of 16 bytes.
std::size_t copy_ld(std::size_t length, std::size_t chunk) { return (std::max<std::size_t>(length, 1) + chunk - 1) / chunk * chunk; }

long long tiles_of(long long size, long long tile) { return (size + tile - 1) / tile; }
/*% endif %*/
/*% if out.maps.encoded %*/

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found by the runtime: nothing links with libcuda.
cudaError_t find(Encode& encode)
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (status != cudaSuccess) return status;
    if (found != cudaDriverEntryPointSuccess)
        return refuse(cudaErrorCallRequiresNewerDriver, "the driver is older than CUDA %d", 12);
    encode = reinterpret_cast<Encode>(function);
    return cudaSuccess;
}

// A tensor in device memory and the boxes of it that TMA moves: elements, the contiguous dimension first, and bytes from
// one line (and matrix) to the next.
template <int DIMENSIONS>
struct Tensor {
    const char* name;
    const void* address;
    CUtensorMapDataType type;
    cuuint64_t sizes[DIMENSIONS], strides[DIMENSIONS - 1];
    cuuint32_t box[DIMENSIONS];
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
};

template <int DIMENSIONS>
cudaError_t encode_map(Encode encode, const Tensor<DIMENSIONS>& tensor, unsigned long long (&map)[16])
{
    cuuint32_t every[DIMENSIONS];
    std::fill_n(every, DIMENSIONS, 1);
    CUtensorMap encoded;
    static_assert(sizeof encoded == sizeof map && sizeof(TensorMap) == sizeof map);
    const CUresult result = encode(&encoded, tensor.type, DIMENSIONS, const_cast<void*>(tensor.address), tensor.sizes,
        tensor.strides, tensor.box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor.swizzle, tensor.promotion,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return refuse(cudaErrorInvalidValue, "the driver encodes no tensor map of %s: CUresult %d", tensor.name, int(result));
    std::memcpy(map, &encoded, sizeof map);
    return cudaSuccess;
}

TensorMap as_parameter(const unsigned long long (&map)[16])
{
    TensorMap parameter;
    std::memcpy(&parameter, map, sizeof parameter);
    return parameter;
}
/*% endif %*/

}  // namespace

//% for copy in out.copies
extern "C" size_t ${ out.name }_${ copy.part }_bytes(${ copy.sized_by | map("replace", "", "int ", 1) | join(", ") or "void" })
{
    return sizeof(${ copy.element }) * ${ copy.elements };
}

//% endfor
extern "C" const char* ${ out.name }_refusal(void) { return reason; }

extern "C" cudaError_t ${ out.name }_make_plan(
    ${ out.name }_plan* plan,
//% for p in out.arguments
    ${ p.ctype } ${ p.text }${ ")" if loop.last else "," }
//% endfor
{
    reason[0] = '\0';
    if (plan == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", "plan");
//% if out.runtime_sizes
    constexpr int size_limit = ${ out.size_limit };  // rounding a size up to a tile must stay below 2^31
//% for size in out.runtime_sizes
    if (${ size } < 0 || ${ size } > size_limit) return refuse(cudaErrorInvalidValue, "${ size } = %d is not in 0 to %d", ${ size }, size_limit);
//% endfor
//% endif
//% for ld in out.runtime_lds
//% set line = ld.line if ld.line.isdigit() or not ld.least else "std::max(%d, %s)" | format(ld.least, ld.line)
    if (${ ld.name } < ${ line }) return refuse(cudaErrorInvalidValue, "${ ld.name } = %d is less than %d", ${ ld.name }, ${ line });
//% if ld.unit > 1
    if (${ ld.name } % ${ ld.unit } != 0) return refuse(cudaErrorInvalidValue, "${ ld.name } = %d is no multiple of %d elements", ${ ld.name }, ${ ld.unit });
//% endif
//% endfor
//% for x in out.runtime_strides
    const long long least_${ x.name } = (${ x.lines } - 1LL) * ${ x.ld } + ${ x.line };
    if (${ x.name ~ " != 0 && " if x.may_be_zero }${ x.name } < least_${ x.name }) return refuse(cudaErrorInvalidValue, "${ x.name } = %lld is less than %lld", ${ x.name }, least_${ x.name });
//% if x.unit > 1
    if (${ x.name } % ${ x.unit } != 0) return refuse(cudaErrorInvalidValue, "${ x.name } = %lld is no multiple of %d elements", ${ x.name }, ${ x.unit });
//% endif
//% endfor
    ${ out.name }_plan made = {};
//% if out.may_be_empty
    if (${ out.may_be_empty | join(" == 0 || ") } == 0) {  // C has no elements
        *plan = made;
        return cudaSuccess;
    }
//% endif
    const struct {
        const char* name;
        const void* address;
        unsigned align;
    } pointers[] = {
//%- for name, align in out.aligns.items()
{"${ name }", ${ name }, ${ align }}${ ", " if not loop.last or out.parts }
//%- endfor
//%- for name in out.parts
{"${ name }", ${ name }, ${ "1" if name in ("partials", "semaphores") else "16" }}${ ", " if not loop.last }
//%- endfor
};
    for (const auto& [name, address, align] : pointers) {
        if (address == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", name);
        if (reinterpret_cast<std::uintptr_t>(address) % align != 0)
            return refuse(cudaErrorMisalignedAddress, "%s = %p is no multiple of %u bytes", name, address, align);
    }

//% include "export/launcher/blocks.cu"
    if (blocks > INT_MAX)
        return refuse(cudaErrorInvalidConfiguration, "%lld blocks are more than %d", static_cast<long long>(blocks), INT_MAX);

//% if out.maps.encoded or out.feature
    int device = 0, major = 0, minor = 0${ ", sms = 0" if out.persistent };
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
//% if out.persistent
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
//% endif
    if (status != cudaSuccess) return status;
//% if out.feature
    if (major != ${ major } || minor != ${ minor })
        return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d%d, and the kernel is for sm_${ major }${ minor } alone", major, minor);
//% else
    if (major < ${ major })
        return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d%d, and the kernel needs an sm_${ major }${ minor }", major, minor);
//% endif
/*% endif %*/

//% if out.maps.encoded
    Encode encode = nullptr;
    status = find(encode);
//% endif
//% for one in out.maps.encoded
    if (status == cudaSuccess)
        status = encode_map<${ one.box | length }>(encode,
            {"${ one.address }", ${ one.address }, CU_TENSOR_MAP_DATA_TYPE_${ one.type },
             {
//%- for size in one.tensor
${ size if size.isdigit() else "cuuint64_t(std::max(1, K))" if size == "K" else "cuuint64_t(%s)" | format(size) }${ ", " if not loop.last }
//%- endfor
},
             {
//%- for distance in one.distances
${ distance if distance.isdigit() or distance.startswith("copy_ld") else "cuuint64_t(%s)" | format(distance) } * ${ one.element_bytes }${ ", " if not loop.last }
//%- endfor
},
             {${ one.box | join(", ") }}, CU_TENSOR_MAP_SWIZZLE_${ one.swizzle }, CU_TENSOR_MAP_L2_PROMOTION_${ one.promotion }},
            made.${ one.parameter });
//% endfor
//% if out.maps.encoded
    if (status != cudaSuccess) return status;
//% endif
//% for p in out.kept
    made.${ p.text } = ${ p.text };
//% endfor
    made.blocks = static_cast<unsigned>(${ "std::min<long long>(blocks, sms)" if out.persistent else "blocks" });
    *plan = made;
    return cudaSuccess;
}

//% for copy in out.copies
extern "C" cudaError_t ${ out.name }_prepare_${ copy.operand | lower }(const ${ out.name }_plan* plan, cudaStream_t stream)
{
//% include "export/launcher/unfold.cu"
    const long long tiles =
//%- for size, tile in copy.grid
 ${ "* " if not loop.first }tiles_of(${ size }, ${ tile })
//%- endfor
;
    if (tiles == 0) return cudaSuccess;  // K = 0: ${ copy.operand } has no elements
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(tiles);
    config.blockDim = ${ copy.threads };
    config.stream = stream;
    return cudaLaunchKernelEx(&config, ${ copy.entry },
        ${ copy.passed | join(", ") });
}

//% endfor
//% set run = "run_prepared" if out.copies else "run"
extern "C" cudaError_t ${ out.name }_${ run }(const ${ out.name }_plan* plan, cudaStream_t stream)
{
//% include "export/launcher/unfold.cu"
//% include "export/launcher/start.cu"
}

//% if out.copies
extern "C" cudaError_t ${ out.name }_run(const ${ out.name }_plan* plan, cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
//% for copy in out.copies
    ${ "if (status == cudaSuccess) " if not loop.first }status = ${ out.name }_prepare_${ copy.operand | lower }(plan, stream);
//% endfor
    return status == cudaSuccess ? ${ out.name }_run_prepared(plan, stream) : status;
}

//% endif
extern "C" cudaError_t ${ out.name }_launch(
//% for p in out.arguments
    ${ p.ctype } ${ p.text },
//% endfor
    cudaStream_t stream)
{
    ${ out.name }_plan plan;
    const cudaError_t status = ${ out.name }_make_plan(&plan, ${ out.arguments | map(attribute="text") | join(", ") });
    return status == cudaSuccess ? ${ out.name }_run(&plan, stream) : status;
}
