/* gemm
 *
 *     C = alpha * A * B + beta * C      sums in f32
 *     B holds ceil(K / 40) images of H x W = 9 x 8; K is output pixel (image, p, q) of P x Q = 5 x 8; column n of C is
 *     (r, s, c): tap (r, s) of R x S = 3 x 2, channel c; padding 1 x 0 x 2 x 1 (top, left, bottom, right), stride 2 x
 *     1
 *     the last image is whole and finite even if K ends within it: its other pixels are multiplied by zeros
 *
 *     A        __nv_bfloat16, 24 x K, column-major, 24 elements from one column to the next
 *     B        __nv_bfloat16, images x 9 x 8 x 16, row-major, 16 elements from one pixel to the next
 *     C        float, 24 x 96, row-major, 96 elements from one row to the next
 *
 * beta = 0 never reads C. K = 0 gives beta * C and reads neither A nor B.
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
 *
 * It needs an sm_90a and no other, and 230400 bytes of dynamic shared memory a block.
 */
#ifndef GEMM_H
#define GEMM_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
#include <cuda_bf16.h>
#else /* CUDA defines this type for C++ alone: C knows pointers to it */
#ifndef GEMMGEN_NV_BFLOAT16 /* other headers of gemmgen's declare it, too: C before C11 takes a typedef once */
#define GEMMGEN_NV_BFLOAT16
typedef struct __nv_bfloat16 __nv_bfloat16;
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the workspace that a launch of these sizes takes in device memory.
 * This kernel takes none: `workspace` may be null. Other kernels of the same problem may take one.
 */
size_t gemm_workspace_bytes(int /* K */);

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C   device memory, at addresses divisible by 16
 * C         overlaps no other operand
 * K         0 to 2147418112
 *
 * Nothing is allocated, and nothing waits: it can be captured in a graph. Returns cudaSuccess, or
 *
 * cudaErrorInvalidValue: a null pointer (A and B may be null where K = 0); a size outside its range
 * cudaErrorMisalignedAddress: an address that is not divisible as above
 * cudaErrorInvalidConfiguration: a device whose blocks have no 230400 bytes of shared memory
 * cudaErrorNoKernelImageForDevice: a device that is no sm_90
 * cudaErrorCallRequiresNewerDriver: a driver older than CUDA 12.0
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 */
cudaError_t gemm_launch(
    const __nv_bfloat16* /* A */, const __nv_bfloat16* /* B */, float* /* C */, int /* K */, float /* alpha */,
    float /* beta */, void* /* workspace */, size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* gemm_refusal(void);

/* A launch whose arguments are checked and whose tensor maps are encoded: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct gemm_plan {
    size_t kept_map_a[16], kept_map_b[16], kept_map_c[16];
    int kept_K;
    float kept_alpha;
    float kept_beta;
    unsigned kept_blocks;
} gemm_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t gemm_make_plan(
    gemm_plan* /* plan */, const __nv_bfloat16* /* A */, const __nv_bfloat16* /* B */, float* /* C */, int /* K */,
    float /* alpha */, float /* beta */, void* /* workspace */, size_t /* workspace_bytes */);

/* Launch as planned, on `stream`. */
cudaError_t gemm_run(const gemm_plan* /* plan */, cudaStream_t /* stream */);

/* The same in parts, for kernels that copy operands first: they copy weights only once. This one reads A and B as they lie, and
 * preparing them does nothing.
 */
cudaError_t gemm_prepare_a(const gemm_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t gemm_prepare_b(const gemm_plan* /* plan */, cudaStream_t /* stream */);
cudaError_t gemm_run_prepared(const gemm_plan* /* plan */, cudaStream_t /* stream */);

#ifdef __cplusplus
}
#endif

#endif
