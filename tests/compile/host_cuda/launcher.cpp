// What an exported self-test links with where there is no GPU: a launcher that computes on the host, in the memory of
// host_kernel/runtime.cpp. The variable BUG seeds one mistake, for the self-test to find.

#include KERNEL_HEADER

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define OF_KERNEL(what) JOIN(KERNEL, what)  // KERNEL_launch and the like

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool bug(const char* name)
{
    static const char* const seeded = std::getenv("BUG");
    return seeded != nullptr && std::string(seeded) == name;
}

// Ten bits of mantissa: what a tensor core reads of a float.
float tf32(float value)
{
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= ~0x1fffu;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
}

// The answer to arguments that need no product; otherwise cudaErrorUnknown.
cudaError_t answer(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc)
{
    if (M < 0 || N < 0 || K < 0 || lda < K || ldb < N || ldc < N) return cudaErrorInvalidValue;
    if (M == 0 || N == 0) return cudaSuccess;
    if (C == nullptr || (K > 0 && (A == nullptr || B == nullptr))) return cudaErrorInvalidValue;
    if (!bug("takes misaligned pointers"))
        for (const float* matrix : {A, B, static_cast<const float*>(C)})
            if (reinterpret_cast<std::uintptr_t>(matrix) % 16 != 0) return cudaErrorMisalignedAddress;
    if (bug("takes misaligned pointers") && reinterpret_cast<std::uintptr_t>(C) < 10000) return cudaSuccess;
    if (bug("never writes")) return cudaSuccess;
    return cudaErrorUnknown;
}

[[maybe_unused]] void product(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb,
                              int ldc, float alpha, float beta)
{
    const int depth = bug("misses the last product") ? K - 1 : K;
    const bool coarse = bug("computes in tf32"), past = bug("reads past a line of A");
    const bool reads_c = beta != 0.0f || bug("reads C with beta = 0");
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0.0f;
            for (int k = 0; k < depth; ++k) {
                const float a = A[std::size_t(m) * lda + k], b = B[std::size_t(k) * ldb + n];
                sum += coarse ? tf32(a) * tf32(b) : a * b;
            }
            if (past && K > 0) sum += 0.0f * A[std::size_t(m) * lda + K];
            float& c = C[std::size_t(m) * ldc + n];
            c = reads_c ? alpha * sum + beta * c : alpha * sum;
        }
    if (bug("one element off")) C[std::size_t(M / 2) * ldc + N / 2] += 1.0f;
    if (bug("writes past the last line")) C[std::size_t(M - 1) * ldc + N] = 0.0f;
    if (bug("writes before C")) C[-1] = 0.0f;
}

}  // namespace

extern "C" const char* OF_KERNEL(_refusal)(void) { return ""; }

#if defined(POINTERS)
extern "C" cudaError_t OF_KERNEL(_launch)(const float* const* A_array, const float* const* B_array, float* const* C_array,
                                     int M, int N, int K, int lda, int ldb, int ldc, int batch, float alpha, float beta,
                                     void*, size_t, cudaStream_t)
{
    if (batch < 0 || M < 0 || N < 0 || K < 0 || lda < K || ldb < N || ldc < N) return cudaErrorInvalidValue;
    if (batch == 0 || M == 0 || N == 0) return cudaSuccess;
    if (A_array == nullptr || B_array == nullptr || C_array == nullptr) return cudaErrorInvalidValue;
    for (const float* const* array : {A_array, B_array, static_cast<const float* const*>(C_array)})
        if (reinterpret_cast<std::uintptr_t>(array) % 8 != 0) return cudaErrorMisalignedAddress;
    const int products = bug("misses the last product of the batch") ? batch - 1 : batch;
    for (int p = 0; p < products; ++p) {  // the self-test's matrices begin with the last product's
        const cudaError_t answered = answer(A_array[p], B_array[p], C_array[p], M, N, K, lda, ldb, ldc);
        if (answered != cudaErrorUnknown) return answered;
        const float* const a = bug("takes A of the next product") ? A_array[(p + 1) % batch] : A_array[p];
        const bool apart = B_array[0] != B_array[batch - 1];  // beyond a matrix that all share is nobody's memory
        const float* const b = bug("takes matrices B for dense") && apart ? B_array[batch - 1] + std::size_t(p) * K * ldb : B_array[p];
        float* const c = bug("takes matrices C for dense") ? C_array[batch - 1] + std::size_t(p) * M * ldc : C_array[p];
        product(a, b, c, M, N, K, lda, ldb, ldc, alpha, beta);
    }
    return cudaSuccess;
}
#elif defined(BATCHED)
extern "C" cudaError_t OF_KERNEL(_launch)(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb,
                                     int ldc, int batch, ptrdiff_t stride_a, ptrdiff_t stride_b, ptrdiff_t stride_c,
                                     float alpha, float beta, void*, size_t, cudaStream_t)
{
    if (batch < 0 || stride_c < (M - 1LL) * ldc + N) return cudaErrorInvalidValue;
    const cudaError_t answered = batch == 0 ? cudaSuccess : answer(A, B, C, M, N, K, lda, ldb, ldc);
    if (answered != cudaErrorUnknown) return answered;
    if (bug("B's stride is A's")) stride_b = stride_a;
    if (bug("C's stride is dense")) stride_c = (long long)M * ldc;
    for (int p = 0; p < (bug("misses the last product of the batch") ? batch - 1 : batch); ++p)
        product(A + p * stride_a, B + p * stride_b, C + p * stride_c, M, N, K, lda, ldb, ldc, alpha, beta);
    return cudaSuccess;
}
#elif defined(EPILOGUE)
extern "C" cudaError_t OF_KERNEL(_launch)(const float* A, const float* B, float* C, const float* bias_n, const float* scale_m,
                                     const float* residual, int M, int N, int K, int lda, int ldb, int ldc,
                                     int ld_residual, float alpha, float beta, void*, size_t, cudaStream_t)
{
    const cudaError_t answered = answer(A, B, C, M, N, K, lda, ldb, ldc);
    if (ld_residual < N) return cudaErrorInvalidValue;
    if (M > 0 && N > 0) {
        for (const float* operand : {bias_n, scale_m, residual}) {
            if (operand == nullptr) return cudaErrorInvalidValue;
            if (reinterpret_cast<std::uintptr_t>(operand) % 16 != 0) return cudaErrorMisalignedAddress;
        }
    }
    if (answered != cudaErrorUnknown) return answered;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float acc = 0.0f;
            for (int k = 0; k < K; ++k) acc += A[std::size_t(m) * lda + k] * B[std::size_t(k) * ldb + n];
            float& c = C[std::size_t(m) * ldc + n];
            const float bias = bug("the bias by row") ? bias_n[m % N] : bias_n[n];
            const float scaled = alpha * acc * scale_m[m];
            const float x = beta != 0.0f ? scaled + beta * c + bias : scaled + bias;
            const float gelu = bug("gelu by tanh") ? 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)))
                                                   : 0.5f * x * (1.0f + std::erf(0.70710678f * x));
            c = gelu + residual[std::size_t(m) * (bug("a dense residual") ? N : ld_residual) + n];
        }
    return cudaSuccess;
}
#elif defined(WORKSPACE)
using Plan = OF_KERNEL(_plan);

extern "C" size_t OF_KERNEL(_workspace_bytes)(int M, int N, int) { return sizeof(unsigned) * (M + N); }

extern "C" cudaError_t OF_KERNEL(_make_plan)(Plan* plan, const float* A, const float* B, float* C, int M, int N, int K, int lda,
                                             int ldb, int ldc, float alpha, float beta, void* workspace, size_t bytes)
{
    *plan = {};
    const cudaError_t answered = answer(A, B, C, M, N, K, lda, ldb, ldc);
    if (answered != cudaErrorUnknown) return answered;
    if (workspace == nullptr || bytes < OF_KERNEL(_workspace_bytes)(M, N, K)) return cudaErrorInvalidValue;
    if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return cudaErrorMisalignedAddress;
    plan->kept_A = A, plan->kept_B = B, plan->kept_C = C, plan->kept_M = M, plan->kept_N = N, plan->kept_K = K, plan->kept_lda = lda, plan->kept_ldb = ldb;
    plan->kept_ldc = ldc, plan->kept_alpha = alpha, plan->kept_beta = beta, plan->kept_semaphores = static_cast<unsigned*>(workspace);
    return cudaSuccess;
}

extern "C" cudaError_t OF_KERNEL(_run_prepared)(const Plan* plan, cudaStream_t)
{
    const auto& [A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, semaphores, partials, blocks] = *plan;
    for (int i = 0; i < M + N; ++i)
        if (semaphores[i] != 0) return cudaErrorUnknown;
    if (bug("leaves a semaphore") && semaphores != nullptr) semaphores[0] = 1;
    product(A, B, C, M, N, K, lda, ldb, ldc, alpha, beta);
    return cudaSuccess;
}

extern "C" cudaError_t OF_KERNEL(_run)(const Plan* plan, cudaStream_t stream)
{
    if (!bug("takes the workspace for zeros"))
        for (int i = 0; i < plan->kept_M + plan->kept_N; ++i) plan->kept_semaphores[i] = 0;
    return OF_KERNEL(_run_prepared)(plan, stream);
}

extern "C" cudaError_t OF_KERNEL(_launch)(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc,
                                          float alpha, float beta, void* workspace, size_t bytes, cudaStream_t stream)
{
    Plan plan;
    const cudaError_t status = OF_KERNEL(_make_plan)(&plan, A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, workspace, bytes);
    return status == cudaSuccess ? OF_KERNEL(_run)(&plan, stream) : status;
}
#else
extern "C" cudaError_t OF_KERNEL(_launch)(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb,
                                     int ldc, float alpha, float beta, void*, size_t, cudaStream_t)
{
    const cudaError_t answered = answer(A, B, C, M, N, K, lda, ldb, ldc);
    if (answered != cudaErrorUnknown) return answered;
    product(A, B, C, M, N, K, lda, ldb, ldc, alpha, beta);
    return cudaSuccess;
}
#endif
