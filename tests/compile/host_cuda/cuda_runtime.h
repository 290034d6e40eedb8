// The part of CUDA's runtime that an exported launcher names beside: a launch, which is left in `launched`.
#pragma once

#include "cuda_runtime_api.h"

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};

struct cudaLaunchConfig_t {
    unsigned gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    const cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

extern unsigned launched[4];  // blocks, threads, bytes of shared memory, whether it may start early

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
    launched[3] = config->numAttrs == 1 && config->attrs->val.programmaticStreamSerializationAllowed;
    return cudaSuccess;
}

// A device, and the driver's function that encodes tensor maps: it leaves its arguments in the map.
extern int device_is[3];  // major, minor, SMs

#define CUDART_VERSION 13000

enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76
};

inline cudaError_t cudaGetDevice(int* device)
{
    *device = 0;
    return cudaSuccess;
}

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int)
{
    *value = device_is[attribute == cudaDevAttrComputeCapabilityMajor ? 0 : attribute == cudaDevAttrComputeCapabilityMinor ? 1 : 2];
    return cudaSuccess;
}

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1 };
const unsigned long long cudaEnableDefault = 0;

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version, unsigned long long flags, cudaDriverEntryPointQueryResult* found);
