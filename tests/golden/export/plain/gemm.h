/* gemm
 *
 *     C = alpha * A * B + beta * C      sums in f32
 *
 *     A        float, M x K, row-major, lda elements from one row to the next
 *     B        float, K x N, row-major, ldb elements from one row to the next
 *     C        float, M x N, row-major, ldc elements from one row to the next
 *
 * beta = 0 never reads C. K = 0 gives beta * C and reads neither A nor B.
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
 *
 * It needs an sm_75 or newer; its shared memory is static, which any GPU has.
 */
#ifndef GEMM_H
#define GEMM_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the workspace that a launch of these sizes takes in device memory.
 * This kernel takes none: `workspace` may be null. Other kernels of the same problem may take one.
 */
size_t gemm_workspace_bytes(int /* M */, int /* N */, int /* K */);

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C   device memory, at addresses divisible by 16
 * C         overlaps no other operand
 * M, N, K   0 to 2147418112; with no element in C nothing is launched
 * lda       at least K
 * ldb       at least N
 * ldc       at least N
 *
 * Nothing is allocated, and nothing waits: it can be captured in a graph. Returns cudaSuccess, or
 *
 * cudaErrorInvalidValue: a null pointer (A and B may be null where K = 0); a size or leading dimension outside its range
 * cudaErrorMisalignedAddress: an address that is not divisible as above
 * cudaErrorInvalidConfiguration: a grid of more than 2^31 - 1 blocks
 * cudaErrorNoKernelImageForDevice: a device for which the kernel was not compiled
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 */
cudaError_t gemm_launch(
    const float* /* A */, const float* /* B */, float* /* C */, int /* M */, int /* N */, int /* K */, int /* lda */,
    int /* ldb */, int /* ldc */, float /* alpha */, float /* beta */, void* /* workspace */,
    size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* gemm_refusal(void);

/* A launch whose arguments are checked: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct gemm_plan {
    const float* kept_A;
    const float* kept_B;
    float* kept_C;
    int kept_M;
    int kept_N;
    int kept_K;
    int kept_lda;
    int kept_ldb;
    int kept_ldc;
    float kept_alpha;
    float kept_beta;
    unsigned kept_blocks;
} gemm_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t gemm_make_plan(
    gemm_plan* /* plan */, const float* /* A */, const float* /* B */, float* /* C */, int /* M */, int /* N */,
    int /* K */, int /* lda */, int /* ldb */, int /* ldc */, float /* alpha */, float /* beta */,
    void* /* workspace */, size_t /* workspace_bytes */);

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
