/* gemm
 *
 *     C = alpha * acc * scale_m + beta * C, acc = A * B      sums in f32
 *     for each of 5 groups of rows, each with its own B: group g has rows offs[g - 1], or 0, to offs[g]; it may be empty
 *
 *     A        __nv_bfloat16, M x 256, row-major, 256 elements from one row to the next
 *     B        __nv_bfloat16, 256 x 136, column-major, 256 elements from one column to the next, 34816 to the next matrix
 *     C        __nv_bfloat16, rows x 136, row-major, 136 elements from one row to the next
 *     offs     int32_t, 5 elements: ends of the groups of rows
 *     index_c  int32_t, M elements: row m of the product is stored in row index_c[m] of C
 *     scale_m  float, M elements, one a row of the product: a factor of each element of its row
 *
 * beta = 0 never reads C.
 * alpha = 0 is no special case, unlike in BLAS: A and B are read, and NaN or infinity in them makes C NaN.
 * C's elements are rounded to the nearest, ties to even; those out of range become infinite.
 *
 * It needs an sm_90a and no other, and 230400 bytes of dynamic shared memory a block.
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
size_t gemm_workspace_bytes(int /* M */);

/* Start the kernel on `stream` of the current device; returns before it has run.
 *
 * A, B, C, offs, index_c, scale_m device memory, at addresses divisible by 16
 * C         overlaps no other operand
 * offs      holds ascending numbers from 0 to M, which is not checked; rows of C behind the last group stay as they are
 * index_c   names different rows that C has, which is not checked; C's other rows stay as they are; rows in no group may have any number
 * M         0 to 2147418112; with no element in C nothing is launched
 *
 * Nothing is allocated, and nothing waits: it can be captured in a graph. Returns cudaSuccess, or
 *
 * cudaErrorInvalidValue: a null pointer; a size outside its range
 * cudaErrorMisalignedAddress: an address that is not divisible as above
 * cudaErrorInvalidConfiguration: a grid of more than 2^31 - 1 blocks; a device whose blocks have no 230400 bytes of shared memory
 * cudaErrorNoKernelImageForDevice: a device that is no sm_90
 * cudaErrorCallRequiresNewerDriver: a driver older than CUDA 12.0
 * another of CUDA's: no device (cudaErrorNoDevice, cudaErrorInsufficientDriver), or earlier work that failed
 */
cudaError_t gemm_launch(
    const __nv_bfloat16* /* A */, const __nv_bfloat16* /* B */, __nv_bfloat16* /* C */, const int32_t* /* offs */,
    const int32_t* /* index_c */, const float* /* scale_m */, int /* M */, float /* alpha */, float /* beta */,
    void* /* workspace */, size_t /* workspace_bytes */, cudaStream_t /* stream */);

/* Why the last of these calls on this thread refused its arguments or the device, as "lda = 100 is less than 128"; else empty. */
const char* gemm_refusal(void);

/* A launch whose arguments are checked and whose tensor maps are encoded: it may be copied, and run any number of
 * times on the device that was current, while tensors and workspace stay where they are. Its fields are the launcher's own. */
typedef struct gemm_plan {
    size_t kept_map_a[16], kept_map_b[16];
    __nv_bfloat16* kept_C;
    const int32_t* kept_offs;
    const int32_t* kept_index_c;
    const float* kept_scale_m;
    int kept_M;
    float kept_alpha;
    float kept_beta;
    unsigned kept_blocks;
} gemm_plan;

/* Check the arguments as a launch does, with the same errors, without starting anything. If it fails, `plan` stays as it was. */
cudaError_t gemm_make_plan(
    gemm_plan* /* plan */, const __nv_bfloat16* /* A */, const __nv_bfloat16* /* B */, __nv_bfloat16* /* C */,
    const int32_t* /* offs */, const int32_t* /* index_c */, const float* /* scale_m */, int /* M */,
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
