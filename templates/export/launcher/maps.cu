/*# What encodes tensor maps. #*/
//% set images = out.maps.encoded | selectattr("conv") | list
//% for Type, name in [("Encode", "cuTensorMapEncodeTiled")] + ([("EncodeImages", "cuTensorMapEncodeIm2col")] if images else [])
using ${ Type } = decltype(&${ name });

// The driver's function, found by the runtime: nothing links with libcuda.
cudaError_t find(${ Type }& encode)
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("${ name }", &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t status = cudaGetDriverEntryPoint("${ name }", &function, cudaEnableDefault, &found);
#endif
    if (status != cudaSuccess) return status;
    if (found != cudaDriverEntryPointSuccess)
        return refuse(cudaErrorCallRequiresNewerDriver, "the driver is older than CUDA %d", 12);
    encode = reinterpret_cast<${ Type }>(function);
    return cudaSuccess;
}
/*% endfor %*/

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

//% if images
// The same of images in im2col mode: a box is some channels of the pixels under a tap, at consecutive places of a filter. Corners are
// columns and rows from an image's first pixel to the first place, and from its last pixel to the last place.
cudaError_t encode_images(EncodeImages encode, const char* name, const void* address, CUtensorMapDataType type,
    const cuuint64_t (&sizes)[4], const cuuint64_t (&strides)[3], const int (&first)[2], const int (&last)[2],
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t (&steps)[4], CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, size_t (&map)[16])
{
    CUtensorMap encoded;
    static_assert(sizeof encoded == sizeof map && sizeof(TensorMap) == sizeof map);
    const CUresult result = encode(&encoded, type, 4, const_cast<void*>(address), sizes, strides, first, last, channels,
        pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return refuse(cudaErrorInvalidValue, "the driver encodes no tensor map of %s: CUresult %d", name, int(result));
    std::memcpy(map, &encoded, sizeof map);
    return cudaSuccess;
}

//% endif
//% if out.maps.encoded | selectattr("map.tail") | list
// Lines of the last of the boxes of `box` lines that cover `lines`, rounded up to eight: a pattern of a swizzle.
cuuint32_t tail_lines(int lines, int box)
{
    return cuuint32_t((lines - 1) % box / 8 * 8 + 8);
}

//% endif
TensorMap as_parameter(const size_t (&map)[16])
{
    TensorMap parameter;
    std::memcpy(&parameter, map, sizeof parameter);
    return parameter;
}
