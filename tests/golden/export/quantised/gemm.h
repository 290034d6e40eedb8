/* gemm
 *
 *     C = aux(alpha * (acc - zero_a * column_sum) * scale_n + beta * C) + residual, acc = A * B, column_sum of a column of B      sums in s32
 *
 *     A        uint8_t, M x K, row-major, lda elements from one row to the next
 *     B        int8_t, K x N, row-major, ldb elements from one row to the next
 *     C        __nv_bfloat16, M x N, row-major, ldc elements from one row to the next
 *     residual float, M x N, row-major, ld_residual elements from one row to the next
 *     aux      float, M x N, row-major, ldc elements from one row to the next
 *              is written: alpha * (acc - zero_a * column_sum) * scale_n + beta * C
 *     scale_n  float, N elements, one a column of C: a factor of each element of its column
 *     zero_a   int32_t, one element, for all of C: the zero point of all of A
 *
 * beta = 0 never reads C. K = 0 makes acc zero and reads neither A nor B.
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
 * Sums and zero points are integers of 32 bits, which wrap around.
 * C's elements are rounded to the nearest, ties to even; those out of range become infinite.
 *
 * It needs an sm_80 or newer; its shared memory is static, which any GPU has.
 */
#ifndef GEMM_H
#define GEMM_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

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
size_t gemm_workspace_bytes(int /* M */, int /* N */, int /* K */);

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C, scale_n, zero_a, residual, aux device memory, at addresses divisible by 16
 * C, aux are written, and overlap no other operand
 * M, N, K   0 to 2147418112; with no element in C nothing is launched
 * lda       at least K
 * ldb       at least N
 * ldc       at least N
 * ld_residual at least N
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
    const uint8_t* /* A */, const int8_t* /* B */, __nv_bfloat16* /* C */, const float* /* scale_n */,
    const int32_t* /* zero_a */, const float* /* residual */, float* /* aux */, int /* M */, int /* N */, int /* K */,
    int /* lda */, int /* ldb */, int /* ldc */, int /* ld_residual */, float /* alpha */, float /* beta */,
    void* /* workspace */, size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* gemm_refusal(void);

/* A launch whose arguments are checked: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct gemm_plan {
    const uint8_t* kept_A;
    const int8_t* kept_B;
    __nv_bfloat16* kept_C;
    const float* kept_scale_n;
    const int32_t* kept_zero_a;
    const float* kept_residual;
    float* kept_aux;
    int kept_M;
    int kept_N;
    int kept_K;
    int kept_lda;
    int kept_ldb;
    int kept_ldc;
    int kept_ld_residual;
    float kept_alpha;
    float kept_beta;
    unsigned kept_blocks;
} gemm_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t gemm_make_plan(
    gemm_plan* /* plan */, const uint8_t* /* A */, const int8_t* /* B */, __nv_bfloat16* /* C */,
    const float* /* scale_n */, const int32_t* /* zero_a */, const float* /* residual */, float* /* aux */,
    int /* M */, int /* N */, int /* K */, int /* lda */, int /* ldb */, int /* ldc */, int /* ld_residual */,
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
