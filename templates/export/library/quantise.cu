/*# Functions that quantise what products with scales by block multiply. #*/
// Kernels that quantise, under the library's own names.
//% for what in ("rows", "squares")
//% for label in lib.quantised
#define quantise_${ what }_${ label } ${ lib.name }_quantise_${ what }_${ label }_kernel
//% endfor
//% endfor
namespace ${ lib.name }_quantise_impl {
//% include "device/plain/quantise.cu"

// Checks the arguments, and starts a kernel with a thread block, or LANES of its threads, for each scale.
template <class T>
cudaError_t start(void (*kernel)(const T*, unsigned char*, float*, int, int, long long), bool squares, const void* x, int rows, int k, int ld, void* codes, float* scales, cudaStream_t stream)
{
    reason[0] = '\0';
    if (rows < 0 || k < 0) return refuse(cudaErrorInvalidValue, "%d x %d elements: sizes are at least 0", rows, k);
    if (ld == 0) ld = k;
    if (ld < k) return refuse(cudaErrorInvalidValue, "ld = %d is less than %d", ld, k);
    if (rows == 0 || k == 0) return cudaSuccess;
    if (x == nullptr || codes == nullptr || scales == nullptr) return refuse(cudaErrorInvalidValue, "x, codes or scales is null");
    if (reinterpret_cast<std::uintptr_t>(x) % sizeof(T) != 0 || reinterpret_cast<std::uintptr_t>(scales) % sizeof(float) != 0)
        return refuse(cudaErrorMisalignedAddress, "x = %p or scales = %p is no multiple of its elements' size", x, static_cast<void*>(scales));
    const long long blocks = (k - 1) / BLOCK + 1, down = squares ? (rows - 1) / BLOCK + 1 : rows;
    const long long teams = squares ? 1 : THREADS / LANES;
    cudaLaunchConfig_t config = {};
    config.gridDim = unsigned(std::min((blocks * down + teams - 1) / teams, 1LL << 20));
    config.blockDim = THREADS;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<const T*>(x), static_cast<unsigned char*>(codes), scales, rows, k, static_cast<long long>(ld));
}
}  // namespace ${ lib.name }_quantise_impl

//% for what in ("rows", "squares")
//% for label, ctype in lib.quantised.items()
extern "C" cudaError_t ${ lib.name }_quantise_${ what }_${ label }(const void* x, int rows, int k, int ld, void* codes, float* scales, cudaStream_t stream)
{
    using namespace ${ lib.name }_quantise_impl;
    return start<${ ctype }>(quantise_${ what }_${ label }, ${ "true" if what == "squares" else "false" }, x, rows, k, ld, codes, scales, stream);
}

//% endfor
//% endfor
