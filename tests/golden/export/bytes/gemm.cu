#if !defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)  // others: at the end
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)  // NVRTC takes the kernel alone
#include "gemm.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace gemm_impl {
#endif

// the kernel

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
namespace {

using Plan = gemm_plan;

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
    return refuse(cudaErrorNoKernelImageForDevice, "%s was not compiled for the device", "gemm");
}

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
    status = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(gemm_impl::gemm));
    if (status != cudaSuccess) cudaGetLastError();  // the status says it
    if (status == cudaSuccess && attributes.maxThreadsPerBlock < 384) status = cudaErrorNoKernelImageForDevice;
    if (status == cudaSuccess) known |= bit;
    return started(status);
}

// Of each call that takes a plan.
cudaError_t begin(const void* plan)
{
    reason[0] = '\0';
    return plan == nullptr ? refuse(cudaErrorInvalidValue, "%s is null", "plan") : cudaSuccess;
}

// That an address is given, and a multiple of `align` bytes.
cudaError_t check(const char* name, const void* address, unsigned align)
{
    if (address == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", name);
    if (reinterpret_cast<std::uintptr_t>(address) % align == 0) return cudaSuccess;
    return refuse(cudaErrorMisalignedAddress, "%s = %p is no multiple of %u bytes", name, address, align);
}

template <typename Kernel, typename... Arguments>
cudaError_t start(Kernel* kernel, size_t blocks, unsigned threads, size_t shared_bytes, bool early, cudaStream_t stream, Arguments... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(blocks);
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute overlap = {};  // of its start with the end of the kernel before: see grid_dependency_wait
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &overlap;
    config.numAttrs = early;
    // It returns this launch's error; cudaGetLastError would return one that an earlier call left, too.
    return started(cudaLaunchKernelEx(&config, kernel, arguments...));
}

size_t tiles_of(size_t size, size_t tile) { return (size + tile - 1) / tile; }

// Where the parts of the workspace begin, and the bytes of all.
struct Workspace {
    size_t prepared_b, bytes;
};

Workspace workspace_of()
{
    Workspace at = {};
    const auto place = [&at](size_t bytes) {
        const size_t begin = at.bytes;
        at.bytes += tiles_of(bytes, 256) * 256;
        return begin;
    };
    at.prepared_b = place(sizeof(int32_t) * tiles_of(136, 64) * tiles_of(256, 64) * 34 * 32);
    return at;
}

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

// The map of a tensor in device memory and the boxes of it that TMA moves: elements, the contiguous dimension first, and
// bytes from one line (and matrix) to the next.
template <size_t RANK>
cudaError_t encode_map(Encode encode, const char* name, const void* address, CUtensorMapDataType type,
    const cuuint64_t (&sizes)[RANK], const cuuint64_t (&strides)[RANK - 1], const cuuint32_t (&box)[RANK],
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, size_t (&map)[16])
{
    cuuint32_t every[RANK];
    std::fill_n(every, RANK, 1);
    CUtensorMap encoded;
    static_assert(sizeof encoded == sizeof map && sizeof(TensorMap) == sizeof map);
    const CUresult result = encode(&encoded, type, RANK, const_cast<void*>(address), sizes, strides, box, every,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return refuse(cudaErrorInvalidValue, "the driver encodes no tensor map of %s: CUresult %d", name, int(result));
    std::memcpy(map, &encoded, sizeof map);
    return cudaSuccess;
}

// Lines of the last of the boxes of `box` lines that cover `lines`, rounded up to eight: a pattern of a swizzle.
cuuint32_t tail_lines(int lines, int box)
{
    return cuuint32_t((lines - 1) % box / 8 * 8 + 8);
}

TensorMap as_parameter(const size_t (&map)[16])
{
    TensorMap parameter;
    std::memcpy(&parameter, map, sizeof parameter);
    return parameter;
}

}  // namespace

extern "C" {

size_t gemm_workspace_bytes(int) { return workspace_of().bytes; }

const char* gemm_refusal(void) { return reason; }

static cudaError_t gemm_plan_of(
    Plan* plan, const __half* A, const int8_t* B, __half* C, const __half* scales_b, const int8_t* zeros_b, int M,
    float alpha, float beta, void* workspace, size_t workspace_bytes, const void* packed)
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    constexpr int size_limit = 2147418112;  // rounding a size up to a tile must stay below 2^31
    const struct {
        const char* name;
        int value;
    } sizes[] = {{"M", M}};
    for (const auto& [name, value] : sizes)
        if (value < 0 || value > size_limit) return refuse(cudaErrorInvalidValue, "%s = %d is not in 0 to %d", name, value, size_limit);
    if (M == 0) {  // C has no elements
        *plan = {};
        return cudaSuccess;
    }
    const struct {
        const char* name;
        const void* address;
        unsigned align;
    } pointers[] = {{"A", A, 16}, {"B", packed != nullptr ? packed : B, 16}, {"C", C, 16}, {"scales_b", packed != nullptr ? packed : scales_b, 16}, {"zeros_b", packed != nullptr ? packed : zeros_b, 16}, {"workspace", packed != nullptr ? packed : workspace, 256}};
    for (const auto& [name, address, align] : pointers) {
        const cudaError_t wrong = check(name, address, align);
        if (wrong != cudaSuccess) return wrong;
    }
    const Workspace at = workspace_of();
    const size_t begin = packed != nullptr ? at.bytes : 0;  // the workspace then has no part of B's
    if (workspace_bytes < at.bytes - begin)
        return refuse(cudaErrorInvalidValue, "workspace_bytes = %zu is less than %zu", workspace_bytes, at.bytes - begin);
    char* const memory = static_cast<char*>(workspace) - begin;
    char* const of_b = packed != nullptr ? static_cast<char*>(const_cast<void*>(packed)) : memory;
    int32_t* const prepared_b = reinterpret_cast<int32_t*>(of_b + at.prepared_b);
    const size_t blocks = tiles_of(M, 16) * tiles_of(136, 128);
    if (blocks > INT_MAX) return refuse(cudaErrorInvalidConfiguration, "%zu blocks are more than %d", blocks, INT_MAX);

    int device = 0, major = 0, minor = 0, sms = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess) return refuse(status, "no device answers: %s", cudaGetErrorName(status));
    if (major != 9 || minor != 0)
        return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d%d, and the kernel is for sm_90 alone", major, minor);
    // As few blocks as leave no block more tiles than one on each SM would have: the power that idle SMs save, the others use.
    const size_t turns = std::max<size_t>(1, (blocks + sms - 1) / sms);
    const size_t launched = (blocks + turns - 1) / turns;
    Plan made = {{}, {}, {}, {}, B, scales_b, zeros_b, M, alpha, beta, prepared_b, static_cast<unsigned>(launched), packed != nullptr};
    Encode encode = nullptr;
    status = find(encode);
    if (status == cudaSuccess)
        status = encode_map(encode, "A", A, CU_TENSOR_MAP_DATA_TYPE_UINT16,
            {256, cuuint64_t(M)}, {256 * 2}, {64, 16}, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            made.kept_map_a);
    if (status == cudaSuccess)
        status = encode_map(encode, "A", A, CU_TENSOR_MAP_DATA_TYPE_UINT16,
            {256, cuuint64_t(M)}, {256 * 2}, {64, tail_lines(M, 16)}, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            made.kept_map_a_tail);
    if (status == cudaSuccess)
        status = encode_map(encode, "prepared_b", prepared_b, CU_TENSOR_MAP_DATA_TYPE_UINT32,
            {32, cuuint64_t(tiles_of(136, 64) * tiles_of(256, 64) * 34)}, {32 * 4}, {32, 68}, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            made.kept_map_b);
    if (status == cudaSuccess)
        status = encode_map(encode, "C", C, CU_TENSOR_MAP_DATA_TYPE_UINT16,
            {136, cuuint64_t(M)}, {136 * 2}, {64, 16}, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
            made.kept_map_c);
    if (status != cudaSuccess) return status;
    *plan = made;
    return cudaSuccess;
}

size_t gemm_packed_bytes()
{
    return workspace_of().bytes;
}

cudaError_t gemm_pack_b(
    const int8_t* B, const __half* scales_b, const int8_t* zeros_b, void* packed, cudaStream_t stream)
{
    reason[0] = '\0';
    cudaError_t status = check("B", B, 16);
    if (status == cudaSuccess) status = check("scales_b", scales_b, 16);
    if (status == cudaSuccess) status = check("zeros_b", zeros_b, 16);
    if (status == cudaSuccess) status = check("packed", packed, 256);
    if (status == cudaSuccess) status = compiled_here();
    if (status != cudaSuccess) return status;
    const Workspace at = workspace_of();
    int32_t* const prepared_b = reinterpret_cast<int32_t*>(static_cast<char*>(packed) + at.prepared_b);
    const size_t tiles = tiles_of(136, 64) * tiles_of(256, 64);
    if (tiles == 0) return cudaSuccess;  // K = 0: B has no elements
    return start(gemm_prepare_b_kernel, tiles, 256, 0, true, stream, B, reinterpret_cast<const F16*>(scales_b), zeros_b, prepared_b);
}

cudaError_t gemm_make_plan(
    Plan* plan, const __half* A, const int8_t* B, __half* C, const __half* scales_b, const int8_t* zeros_b, int M,
    float alpha, float beta, void* workspace, size_t workspace_bytes)
{
    return gemm_plan_of(plan, A, B, C, scales_b, zeros_b, M, alpha, beta, workspace, workspace_bytes, nullptr);
}

cudaError_t gemm_make_packed_plan(
    Plan* plan, const __half* A, const void* packed, __half* C, int M, float alpha, float beta, void* workspace,
    size_t workspace_bytes)
{
    cudaError_t status = begin(plan);
    if (status == cudaSuccess) status = check("packed", packed, 256);
    if (status != cudaSuccess) return status;
    return gemm_plan_of(plan, A, nullptr, C, nullptr, nullptr, M, alpha, beta, workspace, workspace_bytes, packed);
}

cudaError_t gemm_prepare_a(const Plan* plan, cudaStream_t) { return begin(plan); }  // A is read as it lies

cudaError_t gemm_prepare_b(const Plan* plan, cudaStream_t stream)
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    [[maybe_unused]] const auto& [map_a, map_a_tail, map_b, map_c, B, scales_b, zeros_b, M, alpha, beta, prepared_b, blocks, packed] = *plan;
    if (blocks == 0) return cudaSuccess;  // C has no elements
    const cudaError_t here = compiled_here();
    if (here != cudaSuccess) return here;
    if (packed) return cudaSuccess;
    const size_t tiles = tiles_of(136, 64) * tiles_of(256, 64);
    if (tiles == 0) return cudaSuccess;  // K = 0: B has no elements
    return start(gemm_prepare_b_kernel, tiles, 256, 0, true, stream, B, reinterpret_cast<const F16*>(scales_b), zeros_b, prepared_b);
}

cudaError_t gemm_run_prepared(const Plan* plan, cudaStream_t stream)
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    [[maybe_unused]] const auto& [map_a, map_a_tail, map_b, map_c, B, scales_b, zeros_b, M, alpha, beta, prepared_b, blocks, packed] = *plan;
    if (blocks == 0) return cudaSuccess;  // C has no elements
    const cudaError_t here = compiled_here();
    if (here != cudaSuccess) return here;
    // A device's limit, not a launch's: asked for each time, since the current device may have changed.
    const cudaError_t raised = cudaFuncSetAttribute(gemm_impl::gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, 91136);
    if (raised != cudaSuccess)
        return raised != cudaErrorInvalidValue ? started(raised) : refuse(cudaErrorInvalidConfiguration,
            "no block gets %d bytes of shared memory: %s", 91136, cudaGetErrorName(raised));
    return start(gemm_impl::gemm, blocks, 384, 91136, true, stream, as_parameter(map_a), as_parameter(map_a_tail), as_parameter(map_b), as_parameter(map_c), M, alpha, beta);
}

cudaError_t gemm_run(const Plan* plan, cudaStream_t stream)
{
    cudaError_t status = gemm_prepare_a(plan, stream);
    if (status == cudaSuccess) status = gemm_prepare_b(plan, stream);
    return status == cudaSuccess ? gemm_run_prepared(plan, stream) : status;
}

cudaError_t gemm_launch(
    const __half* A, const int8_t* B, __half* C, const __half* scales_b, const int8_t* zeros_b, int M, float alpha,
    float beta, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Plan plan;
    const cudaError_t status = gemm_make_plan(&plan, A, B, C, scales_b, zeros_b, M, alpha, beta, workspace, workspace_bytes);
    return status == cudaSuccess ? gemm_run(&plan, stream) : status;
}

}  // extern "C"
}  // namespace gemm_impl
#endif  // __CUDACC__ && !__CUDACC_RTC__
#else
namespace gemm_impl {
namespace {
struct F16;
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
}  // namespace
extern "C" __global__ void __launch_bounds__(1) gemm_prepare_b_kernel(const signed char*, const F16*, const signed char*, int*) {}
extern "C" __global__ void __launch_bounds__(1) gemm(const __grid_constant__ TensorMap, const __grid_constant__ TensorMap, const __grid_constant__ TensorMap, const __grid_constant__ TensorMap, int, float, float) {}
}  // namespace gemm_impl
#ifdef __CUDA_ARCH_LIST__  // of nvcc: all architectures of the build
template <int... BUILT>
constexpr bool gemm_is_served = (... || (BUILT != __CUDA_ARCH__ && (BUILT == 900)));
static_assert(gemm_is_served<__CUDA_ARCH_LIST__>, "gemm needs sm_90a: compile it with -gencode arch=compute_90a,code=sm_90a");
#endif
#pragma message("gemm is not compiled for one of the build's architectures: it needs sm_90a")
#endif
