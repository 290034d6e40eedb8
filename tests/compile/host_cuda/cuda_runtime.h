// The part of CUDA's runtime that an exported launcher names beside: a launch, which is left in `launched`.
#pragma once

#include "cuda_runtime_api.h"

struct cudaLaunchConfig_t {
    unsigned gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

extern unsigned launched[3];  // blocks, threads, bytes of shared memory

const int cudaFuncAttributeMaxDynamicSharedMemorySize = 8;

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, int, int)
{
    return cudaSuccess;
}

template <typename Kernel, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, Kernel*, Arguments...)
{
    launched[0] = config->gridDim;
    launched[1] = config->blockDim;
    launched[2] = static_cast<unsigned>(config->dynamicSmemBytes);
    return cudaSuccess;
}
