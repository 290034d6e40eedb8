/* gemm
 *
 *     C = alpha * A * B + beta * C      sums in f32
 *
 *     A        __half, M x 256, row-major, 256 elements from one row to the next
 *     B        int8_t, 256 x 136, column-major, 256 elements from one column to the next
 *              codes of 8 bits, -128 to 127 in two's complement
 *     C        __half, M x 136, row-major, 136 elements from one row to the next
 *     scales_b __half, 4 x 136, row-major, without padding: a scale for each column of B and group of K
 *     zeros_b  int8_t, 4 x 136, row-major, without padding: a zero point for each column of B and group of K
 *
 * An element of B is (code - zero point) * scale, rounded once to f16.
 * In a column of B each group of 64 along K has one scale and one zero point.
 * beta = 0 never reads C.
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
 * C's elements are rounded to the nearest, ties to even; those out of range become infinite.
 *
 * It needs an sm_90a and no other, and 91136 bytes of dynamic shared memory a block.
 */
#ifndef GEMM_H
#define GEMM_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <cuda_fp16.h>
#else /* CUDA defines this type for C++ alone: C knows pointers to it */
#ifndef GEMMGEN_HALF /* other headers of gemmgen's declare it, too: C before C11 takes a typedef once */
#define GEMMGEN_HALF
typedef struct __half __half;
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the workspace that a launch of these sizes takes in device memory. Sizes must be in the ranges below.
 * It holds B, scales_b and zeros_b, packed as the kernel takes them.
 *
 * It may hold anything before a launch, which sets up what it needs there. One launch at a time uses it: two would write over
 * each other's copies. Launches in order on one stream may share it, those of other kernels, too.
 */
size_t gemm_workspace_bytes(int /* M */);

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C, scales_b, zeros_b device memory, at addresses divisible by 16
 * C         overlaps no other operand
 * M         0 to 2147418112; with no element in C nothing is launched
 * workspace of at least the bytes above, at an address divisible by 256
 *
 * Nothing is allocated, and nothing waits: it can be captured in a graph. Returns cudaSuccess, or
 *
 * cudaErrorInvalidValue: a null pointer; a size outside its range; a workspace that is too small
 * cudaErrorMisalignedAddress: an address that is not divisible as above
 * cudaErrorInvalidConfiguration: a grid of more than 2^31 - 1 blocks; a device whose blocks have no 91136 bytes of shared memory
 * cudaErrorNoKernelImageForDevice: a device that is no sm_90
 * cudaErrorCallRequiresNewerDriver: a driver older than CUDA 12.0
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 */
cudaError_t gemm_launch(
    const __half* /* A */, const int8_t* /* B */, __half* /* C */, const __half* /* scales_b */,
    const int8_t* /* zeros_b */, int /* M */, float /* alpha */, float /* beta */, void* /* workspace */,
    size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* gemm_refusal(void);

/* A launch whose arguments are checked and whose tensor maps are encoded: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct gemm_plan {
    size_t kept_map_a[16], kept_map_a_tail[16], kept_map_b[16], kept_map_c[16];
    const int8_t* kept_B;
    const __half* kept_scales_b;
    const int8_t* kept_zeros_b;
    int kept_M;
    float kept_alpha;
    float kept_beta;
    int32_t* kept_prepared_b;
    unsigned kept_blocks;
    int kept_packed;
} gemm_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t gemm_make_plan(
    gemm_plan* /* plan */, const __half* /* A */, const int8_t* /* B */, __half* /* C */,
    const __half* /* scales_b */, const int8_t* /* zeros_b */, int /* M */, float /* alpha */, float /* beta */,
    void* /* workspace */, size_t /* workspace_bytes */);

/* Launch as planned, on `stream`. */
cudaError_t gemm_run(const gemm_plan* /* plan */, cudaStream_t /* stream */);

/* The same in parts: both prepare, then any number of launches run while nobody else writes to the workspace. A, or B, is
 * prepared again where it changes. So weights are copied once, whatever kernel of the problem this is.
 *
 * prepare_a  does nothing: the kernel reads A as it lies
 * prepare_b  packs B, scales_b and zeros_b to the workspace's start, where plans of any M find it
 */
cudaError_t gemm_prepare_a(const gemm_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t gemm_prepare_b(const gemm_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t gemm_run_prepared(const gemm_plan* /* plan */, cudaStream_t /* stream */);

/* Weights apart from a workspace, for several products at once: what prepare_b would make of B, in device memory of its own.
 * pack_b packs B, scales_b and zeros_b to `packed`, which has packed_bytes at an address divisible by 256.
 * make_packed_plan takes that in place of B, scales_b and zeros_b; any number of plans on any stream may share it while
 * nobody writes there. Their workspace has packed_bytes less, and may be null where nothing is left.
 */
#define gemm_PACKS_B 1 /* kernels that read B as it lies have none of this */
size_t gemm_packed_bytes(void);
cudaError_t gemm_pack_b(
    const int8_t* /* B */, const __half* /* scales_b */, const int8_t* /* zeros_b */,
    void* /* packed */, cudaStream_t /* stream */);
cudaError_t gemm_make_packed_plan(
    gemm_plan* /* plan */, const __half* /* A */, const void* /* packed */, __half* /* C */, int /* M */,
    float /* alpha */, float /* beta */, void* /* workspace */, size_t /* workspace_bytes */);

#ifdef __cplusplus
}
#endif

#endif
