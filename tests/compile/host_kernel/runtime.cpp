// Host memory in place of CUDA's, for exported self-tests where there is no GPU.

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

extern "C" cudaError_t cudaMalloc(void** memory, std::size_t bytes)
{
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xEE, bytes);
    return cudaSuccess;
}

extern "C" cudaError_t cudaFree(void* memory)
{
    std::free(memory);
    return cudaSuccess;
}

extern "C" cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}

std::size_t zeroed[2];  // the address that no memory is at, and the bytes, that were set to zero last

extern "C" cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t)
{
    if (reinterpret_cast<std::size_t>(memory) == std::size_t(1) << 40) {  // as a test calls it
        zeroed[0] = reinterpret_cast<std::size_t>(memory), zeroed[1] = bytes;
        return cudaSuccess;
    }
    std::memset(memory, byte, bytes);
    return cudaSuccess;
}

extern "C" cudaError_t cudaGetDeviceCount(int* count)
{
    *count = 1;
    return cudaSuccess;
}

extern "C" __attribute__((weak)) cudaError_t cudaGetDevice(int* device)
{
    *device = 0;
    return cudaSuccess;
}

extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*)
{
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

extern "C" cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

extern "C" const char* cudaGetErrorName(cudaError_t error)
{
    switch (error) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
        case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
        default: return "?";
    }
}
