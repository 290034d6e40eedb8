
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)  // NVRTC and host emulation take the kernel alone

#include "gemm.h"

#include <climits>
#include <cstdint>
#include <initializer_list>

extern "C" cudaError_t gemm_launch(
    const float* A,
    const float* B,
    float* C,
    int M,
    int N,
    int K,
    int lda,
    int ldb,
    int ldc,
    float alpha,
    float beta,
    cudaStream_t stream)
{
    constexpr int size_limit = 2147418112;  // rounding a size up to a tile must stay below 2^31
    if (M < 0 || M > size_limit) return cudaErrorInvalidValue;
    if (N < 0 || N > size_limit) return cudaErrorInvalidValue;
    if (K < 0 || K > size_limit) return cudaErrorInvalidValue;
    if (lda < K) return cudaErrorInvalidValue;
    if (ldb < N) return cudaErrorInvalidValue;
    if (ldc < N) return cudaErrorInvalidValue;
    if (M == 0 || N == 0) return cudaSuccess;  // C has no elements
    if (C == nullptr || (K > 0 && (A == nullptr || B == nullptr))) return cudaErrorInvalidValue;
    for (const void* operand : std::initializer_list<const void*>{A, B, C}) {
        if (reinterpret_cast<std::uintptr_t>(operand) % 16 != 0) return cudaErrorMisalignedAddress;
    }

    const auto tiles = [](long long size, long long tile) { return (size + tile - 1) / tile; };
    const long long blocks = 1LL
        * tiles(M, 16)
        * tiles(N, 16);
    if (blocks > INT_MAX) return cudaErrorInvalidConfiguration;

    cudaLaunchConfig_t config = {};
    config.gridDim = static_cast<unsigned>(blocks);
    config.blockDim = 256;
    config.stream = stream;
    // It returns this launch's error; cudaGetLastError would return one that an earlier call left, too.
    return cudaLaunchKernelEx(&config, gemm,
        A, B, C, M, N, K, lda, ldb, ldc, alpha, beta);
}

#endif  // __CUDACC__ && !__CUDACC_RTC__
