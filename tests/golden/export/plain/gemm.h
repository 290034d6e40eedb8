/* gemm
 *
 *     C = alpha * A * B + beta * C      sums in f32
 *
 *     A        float, M x K, row-major, lda elements from one row to the next
 *     B        float, K x N, row-major, ldb elements from one row to the next
 *     C        float, M x N, row-major, ldc elements from one row to the next
 *
 * beta = 0 never reads C. K = 0 gives beta * C and reads neither A nor B.
 * alpha = 0 multiplies as any other: A and B are read, and NaN or infinity in them makes NaN of C. BLAS does not read them.
 */
#ifndef GEMM_H
#define GEMM_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C
 *           device memory, at addresses divisible by 16
 * C         overlaps no other operand
 * M, N, K   0 to 2147418112; with no element in C nothing is launched
 * lda       at least K
 * ldb       at least N
 * ldc       at least N
 *
 * Returns cudaSuccess, or
 *     cudaErrorInvalidValue           a null pointer, or a size or leading dimension outside its range
 *     cudaErrorMisalignedAddress      a pointer to an address that is not divisible as above
 *     cudaErrorInvalidConfiguration   a grid of more than 2^31 - 1 blocks
 *     what cudaGetLastError() reports after the launch: an error that an earlier call left behind, too.
 */
cudaError_t gemm_launch(
    const float* A,
    const float* B,
    float* C,
    int M,
    int N,
    int K,
    int lda,
    int ldb,
    int ldc,
    float alpha,
    float beta,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
