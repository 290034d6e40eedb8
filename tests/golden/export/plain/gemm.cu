#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)  // NVRTC takes the kernel alone
#include "gemm.h"

#include <algorithm>
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

// Of each call that takes a plan.
cudaError_t begin(const void* plan)
{
    reason[0] = '\0';
    return plan == nullptr ? refuse(cudaErrorInvalidValue, "%s is null", "plan") : cudaSuccess;
}

size_t tiles_of(size_t size, size_t tile) { return (size + tile - 1) / tile; }

}  // namespace

extern "C" {

size_t gemm_workspace_bytes(int, int, int) { return 0; }

const char* gemm_refusal(void) { return reason; }

cudaError_t gemm_make_plan(
    Plan* plan, const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc, float alpha,
    float beta, void*, size_t)
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    constexpr int size_limit = 2147418112;  // rounding a size up to a tile must stay below 2^31
    const struct {
        const char* name;
        int value;
    } sizes[] = {{"M", M}, {"N", N}, {"K", K}};
    for (const auto& [name, value] : sizes)
        if (value < 0 || value > size_limit) return refuse(cudaErrorInvalidValue, "%s = %d is not in 0 to %d", name, value, size_limit);
    const struct {
        const char* name;
        long long value, least, unit;
    } distances[] = {
        {"lda", lda, K, 1},
        {"ldb", ldb, N, 1},
        {"ldc", ldc, N, 1},
    };
    for (const auto& [name, value, least, unit] : distances) {
        if (value < least) return refuse(cudaErrorInvalidValue, "%s = %lld is less than %lld", name, value, least);
        if (value % unit != 0) return refuse(cudaErrorInvalidValue, "%s = %lld is no multiple of %lld elements", name, value, unit);
    }
    if (M == 0 || N == 0) {  // C has no elements
        *plan = {};
        return cudaSuccess;
    }
    const struct {
        const char* name;
        const void* address;
        unsigned align;
        bool may_be_null;
    } pointers[] = {{"A", A, 16, K == 0}, {"B", B, 16, K == 0}, {"C", C, 16, false}};
    for (const auto& [name, address, align, may_be_null] : pointers) {
        if (address == nullptr && may_be_null) continue;
        if (address == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", name);
        if (reinterpret_cast<std::uintptr_t>(address) % align != 0)
            return refuse(cudaErrorMisalignedAddress, "%s = %p is no multiple of %u bytes", name, address, align);
    }
    const size_t blocks = tiles_of(M, 16) * tiles_of(N, 16);
    if (blocks > INT_MAX) return refuse(cudaErrorInvalidConfiguration, "%zu blocks are more than %d", blocks, INT_MAX);

    Plan made = {A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, static_cast<unsigned>(blocks)};
    *plan = made;
    return cudaSuccess;
}

cudaError_t gemm_prepare_a(const Plan* plan, cudaStream_t) { return begin(plan); }  // A is read as it lies

cudaError_t gemm_prepare_b(const Plan* plan, cudaStream_t) { return begin(plan); }  // B is read as it lies

cudaError_t gemm_run_prepared(const Plan* plan, cudaStream_t stream)
{
    const cudaError_t begun = begin(plan);
    if (begun != cudaSuccess) return begun;
    [[maybe_unused]] const auto& [A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, blocks] = *plan;
    if (blocks == 0) return cudaSuccess;  // C has no elements
    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(blocks);
    config.blockDim = 256;
    config.stream = stream;
    // It returns this launch's error; cudaGetLastError would return one that an earlier call left, too.
    return started(cudaLaunchKernelEx(&config, gemm_impl::gemm, A, B, C, M, N, K, lda, ldb, ldc, alpha, beta));
}

cudaError_t gemm_run(const Plan* plan, cudaStream_t stream) { return gemm_run_prepared(plan, stream); }

cudaError_t gemm_launch(
    const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc, float alpha, float beta,
    void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Plan plan;
    const cudaError_t status = gemm_make_plan(&plan, A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, workspace, workspace_bytes);
    return status == cudaSuccess ? gemm_run(&plan, stream) : status;
}

}  // extern "C"
}  // namespace gemm_impl
#endif  // __CUDACC__ && !__CUDACC_RTC__
