/* In place of CUDA and of the library `blas`, for examples/blas/shim.c: host memory, and products by their definition. */
#include "blas.h"

#include <stdlib.h>
#include <string.h>

int refused; /* the argument that xerbla was told last */

void xerbla_(const char* routine, const int* argument, size_t routine_length)
{
    refused = strncmp(routine + 1, "GEMM ", routine_length - 1) == 0 ? *argument : -1;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = malloc(bytes), cudaSuccess; }
cudaError_t cudaFree(void* memory) { return free(memory), cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "an error"; }
const char* blas_refusal(void) { return ""; }
size_t blas_workspace_bytes(const blas_args* args) { return args->M > 0 ? 256 : 0; }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind)
{
    return (void)kind, memcpy(to, from, bytes), cudaSuccess;
}

cudaError_t cudaMemset2D(void* memory, size_t pitch, int byte, size_t width, size_t height)
{
    for (size_t line = 0; line < height; ++line) memset((char*)memory + line * pitch, byte, width);
    return cudaSuccess;
}

static double element(const blas_args* a, const void* matrix, size_t at)
{
    return a->product < BLAS_F64_RR ? ((const float*)matrix)[at] : ((const double*)matrix)[at];
}

cudaError_t blas_gemm(const blas_args* a, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const int by_column_a = a->product / 2 % 2, by_column_b = a->product % 2;
    if (workspace == NULL || workspace_bytes != 256 || stream != NULL) return cudaErrorInvalidValue;
    for (size_t m = 0; m < (size_t)a->M; ++m)
        for (size_t n = 0; n < (size_t)a->N; ++n) {
            const size_t at = m * a->ldc + n;
            double sum = a->beta == 0 ? 0 : a->beta * element(a, a->C, at);
            for (size_t k = 0; k < (size_t)a->K; ++k)
                sum += a->alpha * element(a, a->A, by_column_a ? k * a->lda + m : m * a->lda + k) *
                       element(a, a->B, by_column_b ? n * a->ldb + k : k * a->ldb + n);
            if (a->product < BLAS_F64_RR) ((float*)a->C)[at] = (float)sum;
            else ((double*)a->C)[at] = sum;
        }
    return cudaSuccess;
}
