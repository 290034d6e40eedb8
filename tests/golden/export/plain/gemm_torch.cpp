// torch.ops.gemm: gemm makes C, gemm_out writes to a given one. Nothing is copied: strides say how tensors lie.
//
//     gemm(Tensor A, Tensor B, *, float alpha=1) -> Tensor
//     gemm_out(Tensor A, Tensor B, Tensor(a!) C, *, float alpha=1, float beta=0) -> ()

#include "gemm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>

namespace {

using at::Tensor;
using std::to_string;

// Sizes or strides.
std::string text(at::IntArrayRef numbers)
{
    std::string list;
    for (int64_t number : numbers) list += (list.empty() ? "" : ", ") + to_string(number);
    return "[" + list + "]";
}

// A message. No stream makes it, as TORCH_CHECK would of several values: where a library brings a C++ runtime of its own, locales may clash.
template <typename... Parts>
std::string joined(const Parts&... parts)
{
    return (std::string() + ... + parts);
}

int as_int(const char* name, int64_t value)
{
    TORCH_CHECK(value <= INT_MAX, joined(name, " = ", to_string(value), " is more than ", to_string(INT_MAX)));
    return static_cast<int>(value);
}

void require_like(const char* name, const Tensor& x, const Tensor& a, at::ScalarType type)
{
    TORCH_CHECK(x.device() == a.device(), joined(name, " is on ", x.device().str(), ", and A on ", a.device().str()));
    TORCH_CHECK(x.scalar_type() == type, joined(name, " is of ", c10::toString(x.scalar_type()), ": this kernel takes ", c10::toString(type)));
}

void require_matrices(const Tensor& A, const Tensor& B)
{
    TORCH_CHECK(A.dim() == 2 && B.dim() == 2, joined("A is ", text(A.sizes()), " and B ", text(B.sizes()), ": this kernel takes matrices"));
}

// A matrix as the kernel takes it; `ld` of -1 is left to run time, `unit` elements dividing it.
struct Matrix {
    const char* name;
    at::ScalarType type;
    int64_t rows, cols;
    bool by_rows;
    int64_t ld, unit;
};

// Elements from one line of it to the next.
struct Place {
    int64_t ld;
};

Place place_of(const Matrix& m, const Tensor& x, const Tensor& a)
{
    require_like(m.name, x, a, m.type);
    const bool fits = x.dim() == 2 && x.size(0) == m.rows && x.size(1) == m.cols;
    TORCH_CHECK(fits, joined(m.name, " is ", text(x.sizes()), ": this launch takes ", text({m.rows, m.cols})));
    const int64_t length = m.by_rows ? m.cols : m.rows, lines = m.by_rows ? m.rows : m.cols;
    const int64_t along = x.stride(m.by_rows ? -1 : -2), across = x.stride(m.by_rows ? -2 : -1);
    TORCH_CHECK(length <= 1 || lines == 0 || along == 1, joined(m.name, " has strides ", text(x.strides()), ": this kernel reads it ", m.by_rows ? "row" : "column", "-major"));
    // Strides of a dimension of one element say nothing.
    const int64_t least = (std::max<int64_t>(1, length) + m.unit - 1) / m.unit * m.unit;
    const int64_t ld = lines > 1 && length > 0 ? across : m.ld >= 0 ? m.ld : least;
    TORCH_CHECK(m.ld < 0 || ld == m.ld, joined(m.name, " has strides ", text(x.strides()), ": this kernel is built for lines ", to_string(m.ld), " elements apart"));
    return {ld};
}

void gemm_out(const Tensor& A, const Tensor& B, Tensor& C, double alpha, double beta)
{
    require_matrices(A, B);
    const int64_t M = A.size(-2), N = B.size(-1), K = A.size(-1);
    const Place place_of_A = place_of({"A", at::kFloat, M, K, true, -1, 1}, A, A);
    const Place place_of_B = place_of({"B", at::kFloat, K, N, true, -1, 1}, B, A);
    const Place place_of_C = place_of({"C", at::kFloat, M, N, true, -1, 1}, C, A);

    const c10::cuda::CUDAGuard device(A.device());
    const cudaError_t status = gemm_launch(
        static_cast<const float*>(A.const_data_ptr()),
        static_cast<const float*>(B.const_data_ptr()),
        static_cast<float*>(C.data_ptr()),
        as_int("M", M),
        as_int("N", N),
        as_int("K", K),
        as_int("lda", place_of_A.ld),
        as_int("ldb", place_of_B.ld),
        as_int("ldc", place_of_C.ld),
        static_cast<float>(alpha),
        static_cast<float>(beta),
        nullptr, 0, c10::cuda::getCurrentCUDAStream());
    const char* const refusal = gemm_refusal();
    TORCH_CHECK(status == cudaSuccess, joined("gemm: ", *refusal != '\0' ? refusal : cudaGetErrorString(status)));
}

// What `gemm` writes to.
Tensor make(const Tensor& A, const Tensor& B)
{
    require_matrices(A, B);
    const c10::SymInt M = A.sym_size(-2), N = B.sym_size(-1);
    Tensor C = at::empty_strided_symint({M, N}, {N, 1}, A.options().dtype(at::kFloat));
    return C;
}

Tensor gemm(const Tensor& A, const Tensor& B, double alpha)
{
    auto C = make(A, B);
    gemm_out(A, B, C, alpha, 0);
    return C;
}

// For tensors without data, as torch.compile has them.
Tensor gemm_shape(const Tensor& A, const Tensor& B, double) { return make(A, B); }

void gemm_out_shape(const Tensor&, const Tensor&, Tensor&, double, double) {}

}  // namespace

TORCH_LIBRARY(gemm, library)
{
    library.def("gemm(Tensor A, Tensor B, *, float alpha=1) -> Tensor");
    library.def("gemm_out(Tensor A, Tensor B, Tensor(a!) C, *, float alpha=1, float beta=0) -> ()");
}

TORCH_LIBRARY_IMPL(gemm, CUDA, library)
{
    library.impl("gemm", gemm);
    library.impl("gemm_out", gemm_out);
}

TORCH_LIBRARY_IMPL(gemm, Meta, library)
{
    library.impl("gemm", gemm_shape);
    library.impl("gemm_out", gemm_out_shape);
}
