/* SGEMM and DGEMM as Fortran calls them, by the library that blas.toml describes. Matrices lie in the host's memory, as in
 * BLAS: each call copies them to the current device and C back. So it shows what the library computes, not how fast. */
#include "blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void xerbla_(const char* routine, const int* argument, size_t routine_length);

static void require(cudaError_t status, const char* what)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorName(status), blas_refusal());
    exit(EXIT_FAILURE);
}

static int larger(int a, int b) { return a > b ? a : b; }

/* 0: as it lies, 1: transposed (of real numbers that is what 'C' means, too), -1: neither. */
static int transposed(char letter)
{
    if (letter == '\0' || strchr("NnTtCc", letter) == NULL) return -1;
    return strchr("Nn", letter) == NULL;
}

/* A column-major matrix: `lines` columns of `length` elements, `ld` elements apart. */
typedef struct {
    int length, lines, ld;
} Shape;

static size_t bytes_of(Shape s, size_t element)
{
    return s.length == 0 || s.lines == 0 ? 0 : ((size_t)(s.lines - 1) * s.ld + s.length) * element;
}

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Device memory of at least `bytes`, kept for the next call. */
static char* device_memory(size_t bytes)
{
    static char* memory = NULL;
    static size_t held = 0;
    if (bytes > held) {
        require(cudaFree(memory), "cudaFree");
        require(cudaMalloc((void**)&memory, bytes), "cudaMalloc");
        held = bytes;
    }
    return memory;
}

static void upload(char* device, const void* host, size_t bytes)
{
    require(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

/* `call` has the host's addresses, and its A is BLAS's B: a, b and c are shapes of BLAS's matrices. */
static void run(blas_args call, Shape a, Shape b, Shape c, size_t element)
{
    void* const host_c = call.C;
    const size_t b_at = rounded(bytes_of(a, element)), c_at = b_at + rounded(bytes_of(b, element));
    const size_t workspace_at = c_at + rounded(bytes_of(c, element)), workspace_bytes = blas_workspace_bytes(&call);
    char* const memory = device_memory(workspace_at + workspace_bytes);
    if (call.K > 0) {
        upload(memory, call.B, bytes_of(a, element));
        upload(memory + b_at, call.A, bytes_of(b, element));
    }
    upload(memory + c_at, host_c, bytes_of(c, element));
    if (call.beta == 0) /* C is not read: NaN in place of its elements shows it */
        require(cudaMemset2D(memory + c_at, c.ld * element, 0xff, c.length * element, c.lines), "cudaMemset2D");
    call.A = memory + b_at;
    call.B = memory;
    call.C = memory + c_at;
    require(blas_gemm(&call, memory + workspace_at, workspace_bytes, NULL), "blas_gemm");
    require(cudaMemcpy(host_c, call.C, bytes_of(c, element), cudaMemcpyDeviceToHost), "copy of C");
}

/* `first` is the product whose A and B are row-major; those with a column-major B, A, and both follow. */
static void gemm(const char* routine, blas_product first, size_t element, char transa, char transb, int m, int n, int k,
                 double alpha, const void* A, int lda, const void* B, int ldb, double beta, void* C, int ldc)
{
    const int ta = transposed(transa), tb = transposed(transb);
    const Shape a = {ta ? k : m, ta ? m : k, lda}, b = {tb ? n : k, tb ? k : n, ldb}, c = {m, n, ldc};
    const int wrong = ta < 0                      ? 1
                      : tb < 0                    ? 2
                      : m < 0                     ? 3
                      : n < 0                     ? 4
                      : k < 0                     ? 5
                      : lda < larger(1, a.length) ? 8
                      : ldb < larger(1, b.length) ? 10
                      : ldc < larger(1, m)        ? 13
                                                  : 0;
    if (wrong != 0) {
        xerbla_(routine, &wrong, strlen(routine));
        return;
    }
    const int depth = alpha == 0 ? 0 : k; /* BLAS does not read A and B then, nor does the library where K = 0 */
    if (m == 0 || n == 0 || (depth == 0 && beta == 1)) return;

    /* Row-major, these matrices are their transposes: C^T = B^T A^T. */
    blas_args call = {0};
    call.product = (blas_product)(first + 2 * tb + ta);
    call.M = n, call.N = m, call.K = depth;
    call.A = B, call.B = A, call.C = C;
    call.lda = ldb, call.ldb = lda, call.ldc = ldc;
    call.alpha = alpha, call.beta = beta;
    run(call, a, b, c, element);
}

void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* A, const int* lda, const float* B, const int* ldb, const float* beta, float* C, const int* ldc)
{
    gemm("SGEMM ", BLAS_F32_RR, sizeof(float), *transa, *transb, *m, *n, *k, *alpha, A, *lda, B, *ldb, *beta, C, *ldc);
}

void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const double* alpha,
            const double* A, const int* lda, const double* B, const int* ldb, const double* beta, double* C, const int* ldc)
{
    gemm("DGEMM ", BLAS_F64_RR, sizeof(double), *transa, *transb, *m, *n, *k, *alpha, A, *lda, B, *ldb, *beta, C, *ldc);
}
