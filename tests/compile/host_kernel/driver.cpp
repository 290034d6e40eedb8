// A driver that encodes tensor maps as their numbers in the order of its arguments, for exported launchers where there is no GPU.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

int device_is[3] = {9, 0, 132};

CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
    const cuuint32_t* box, const cuuint32_t* every, CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill)
{
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0 || strides[0] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
    cuuint64_t* to = map->opaque;
    *to++ = cuuint64_t(type);
    *to++ = reinterpret_cast<std::uintptr_t>(address);
    for (cuuint32_t i = 0; i < rank; ++i) *to++ = sizes[i];
    for (cuuint32_t i = 0; i + 1 < rank; ++i) *to++ = strides[i];
    for (cuuint32_t i = 0; i < rank; ++i) *to++ = every[i] == 1 ? box[i] : 0;
    *to++ = swizzle;
    *to++ = promotion;
    while (to < map->opaque + 16) *to++ = 0;
    return CUDA_SUCCESS;
}

// Steps and enumerations share the last word, a byte each.
CUresult cuTensorMapEncodeIm2col(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
    const int* first, const int* last, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps, CUtensorMapInterleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill)
{
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0 || strides[0] % 16 != 0 || rank != 4) return CUDA_ERROR_INVALID_VALUE;
    cuuint64_t* to = map->opaque;
    *to++ = cuuint64_t(type);
    *to++ = reinterpret_cast<std::uintptr_t>(address);
    for (cuuint32_t i = 0; i < rank; ++i) *to++ = sizes[i];
    for (cuuint32_t i = 0; i + 1 < rank; ++i) *to++ = strides[i];
    *to++ = channels;
    *to++ = pixels;
    for (int i = 0; i < 4; ++i) *to++ = cuuint64_t(i < 2 ? first[i] : last[i - 2]);
    *to++ = cuuint64_t(steps[1] | steps[2] << 8 | swizzle << 16 | promotion << 24);
    return steps[0] == 1 && steps[3] == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version, unsigned long long, cudaDriverEntryPointQueryResult* found)
{
    const bool images = std::strcmp(symbol, "cuTensorMapEncodeIm2col") == 0;
    if ((!images && std::strcmp(symbol, "cuTensorMapEncodeTiled") != 0) || version != 12000) return cudaErrorUnknown;
    *function = images ? reinterpret_cast<void*>(&cuTensorMapEncodeIm2col) : reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
