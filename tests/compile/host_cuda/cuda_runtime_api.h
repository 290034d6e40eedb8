/* The part of CUDA's runtime that an exported header and self-test name, for machines without CUDA's headers. */
#ifndef CUDA_RUNTIME_API_H
#define CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError { /* numbered as CUDA does */
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorCallRequiresNewerDriver = 36,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorMisalignedAddress = 716,
    cudaErrorUnknown = 999
} cudaError_t;
typedef enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 } cudaMemcpyKind;
typedef struct CUstream_st* cudaStream_t;
struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset2D(void* memory, size_t pitch, int byte, size_t width, size_t height);
cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function);
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);

#ifdef __cplusplus
}
#endif

#endif
