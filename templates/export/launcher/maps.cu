/*# What encodes tensor maps. #*/
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
