// torch.ops.gemm: gemm makes C and what is written beside it, gemm_out writes to a given one. Nothing is copied: strides say how tensors lie.
//
//     gemm(Tensor A, Tensor B, *, Tensor scale_n, Tensor zero_a, Tensor residual, float alpha=1) -> (Tensor, Tensor)
//     gemm_out(Tensor A, Tensor B, Tensor(a!) C, *, Tensor scale_n, Tensor zero_a, Tensor residual, Tensor(b!) aux, float alpha=1, float beta=0) -> ()

#include "gemm.h"

#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

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
    TORCH_CHECK(value >= INT_MIN && value <= INT_MAX, joined(name, " = ", to_string(value), " is not in ", to_string(INT_MIN), " to ", to_string(INT_MAX)));
    return static_cast<int>(value);
}

// Of a number that is finite: infinity and NaN stay what they are.
float as_float(const char* name, double value)
{
    const float rounded = static_cast<float>(value);
    TORCH_CHECK(std::isfinite(rounded) || !std::isfinite(value), joined(name, " = ", to_string(value), " overflows float, whose largest number is ", to_string(FLT_MAX)));
    return rounded;
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

void require_elements(const char* name, const Tensor& x, const Tensor& a, at::ScalarType type, at::IntArrayRef sizes)
{
    require_like(name, x, a, type);
    TORCH_CHECK(x.sizes() == sizes || (sizes.empty() && x.numel() == 1), joined(name, " is ", text(x.sizes()), ": this launch takes ", text(sizes)));
    TORCH_CHECK(x.is_contiguous(), joined(name, " has strides ", text(x.strides()), ": its elements have to follow each other"));
}

// The bytes of an operand: `count` lines of `length`, `apart` from each other, in each of `batch` matrices.
struct Bytes {
    const char* name;
    bool written;
    uintptr_t first;
    int64_t length, count, apart, batch, stride;

    bool empty() const { return length * count * batch == 0; }
    uintptr_t end() const { return first + (batch - 1) * stride + (count - 1) * apart + length; }
    uintptr_t line(int64_t i) const { return first + i / count * stride + i % count * apart; }
};

Bytes bytes_of(const Matrix& m, const Place& place, const Tensor& x, bool written)
{
    const int64_t size = x.element_size(), length = m.by_rows ? m.cols : m.rows, lines = m.by_rows ? m.rows : m.cols;
    return {m.name, written, reinterpret_cast<uintptr_t>(x.const_data_ptr()), length * size, lines, place.ld * size, 1, 0};
}

// Whether `x` has a byte of `c`. Lines of `c`, which is written, do not overlap each other; views of one buffer may lie between them.
bool meet(const Bytes& x, const Bytes& c)
{
    if (x.empty() || c.empty() || x.end() <= c.first || c.end() <= x.first) return false;
    std::vector<uintptr_t> starts(c.count * c.batch);
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = c.line(i);
    std::sort(starts.begin(), starts.end());
    for (int64_t i = 0; i < x.count * x.batch; ++i) {
        const uintptr_t line = x.line(i);
        const auto behind = std::lower_bound(starts.begin(), starts.end(), line + x.length);
        if (behind != starts.begin() && behind[-1] + c.length > line) return true;
    }
    return false;
}

void gemm_out(const Tensor& A, const Tensor& B, Tensor& C, const Tensor& scale_n, const Tensor& zero_a, const Tensor& residual, Tensor& aux, double alpha, double beta)
{
    require_matrices(A, B);
    const int64_t M = A.size(-2), N = B.size(-1), K = A.size(-1);
    const Matrix matrix_A = {"A", at::kByte, M, K, true, -1, 1};
    const Place place_of_A = place_of(matrix_A, A, A);
    const Matrix matrix_B = {"B", at::kChar, K, N, true, -1, 1};
    const Place place_of_B = place_of(matrix_B, B, A);
    const Matrix matrix_C = {"C", at::kBFloat16, M, N, true, -1, 1};
    const Place place_of_C = place_of(matrix_C, C, A);
    const Matrix matrix_residual = {"residual", at::kFloat, M, N, true, -1, 1};
    const Place place_of_residual = place_of(matrix_residual, residual, A);
    const Matrix matrix_aux = {"aux", at::kFloat, M, N, true, -1, 1};
    const Place place_of_aux = place_of(matrix_aux, aux, A);
    const bool aux_fits = place_of_aux.ld == place_of_C.ld;
    TORCH_CHECK(aux_fits, joined("aux has strides ", text(aux.strides()), ", and C ", text(C.strides()), ": they lie alike"));
    require_elements("scale_n", scale_n, A, at::kFloat, {N});
    require_elements("zero_a", zero_a, A, at::kInt, {});
    const Bytes operands[] = {
        bytes_of(matrix_A, place_of_A, A, false),
        bytes_of(matrix_B, place_of_B, B, false),
        bytes_of(matrix_C, place_of_C, C, true),
        bytes_of(matrix_residual, place_of_residual, residual, false),
        bytes_of(matrix_aux, place_of_aux, aux, true),
        {"scale_n", false, reinterpret_cast<uintptr_t>(scale_n.const_data_ptr()), scale_n.numel() * scale_n.element_size(), 1, 0, 1, 0},
        {"zero_a", false, reinterpret_cast<uintptr_t>(zero_a.const_data_ptr()), zero_a.numel() * zero_a.element_size(), 1, 0, 1, 0},
    };
    for (const Bytes& c : operands)
        for (const Bytes& x : operands)
            TORCH_CHECK(!c.written || &x == &c || !meet(x, c), joined(c.name, " overlaps ", x.name, ": bytes ", to_string(c.first), " to ", to_string(c.end()), " and ", to_string(x.first), " to ", to_string(x.end())));

    const c10::cuda::CUDAGuard device(A.device());
    const cudaError_t status = gemm_launch(
        static_cast<const uint8_t*>(A.const_data_ptr()),
        static_cast<const int8_t*>(B.const_data_ptr()),
        static_cast<__nv_bfloat16*>(C.data_ptr()),
        static_cast<const float*>(scale_n.const_data_ptr()),
        static_cast<const int32_t*>(zero_a.const_data_ptr()),
        static_cast<const float*>(residual.const_data_ptr()),
        static_cast<float*>(aux.data_ptr()),
        as_int("M", M),
        as_int("N", N),
        as_int("K", K),
        as_int("lda", place_of_A.ld),
        as_int("ldb", place_of_B.ld),
        as_int("ldc", place_of_C.ld),
        as_int("ld_residual", place_of_residual.ld),
        as_float("alpha", alpha),
        as_float("beta", beta),
        nullptr, 0, c10::cuda::getCurrentCUDAStream());
    const char* const refusal = gemm_refusal();
    TORCH_CHECK(status == cudaSuccess, joined("gemm: ", *refusal != '\0' ? refusal : cudaGetErrorString(status)));
}

// What `gemm` writes to.
std::tuple<Tensor, Tensor> make(const Tensor& A, const Tensor& B)
{
    require_matrices(A, B);
    const c10::SymInt M = A.sym_size(-2), N = B.sym_size(-1);
    Tensor C = at::empty_strided_symint({M, N}, {N, 1}, A.options().dtype(at::kBFloat16));
    Tensor aux = at::empty_strided_symint({M, N}, {N, 1}, A.options().dtype(at::kFloat));
    return {C, aux};
}

std::tuple<Tensor, Tensor> gemm(const Tensor& A, const Tensor& B, const Tensor& scale_n, const Tensor& zero_a, const Tensor& residual, double alpha)
{
    auto [C, aux] = make(A, B);
    gemm_out(A, B, C, scale_n, zero_a, residual, aux, alpha, 0);
    return {C, aux};
}

// For tensors without data, as torch.compile has them.
std::tuple<Tensor, Tensor> gemm_shape(const Tensor& A, const Tensor& B, const Tensor&, const Tensor&, const Tensor&, double) { return make(A, B); }

void gemm_out_shape(const Tensor&, const Tensor&, Tensor&, const Tensor&, const Tensor&, const Tensor&, Tensor&, double, double) {}

// No gradient is computed here: tensors that require one are refused, so that none is lost.
void without_gradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack)
{
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; at::GradMode::is_enabled() && i < arguments.size(); ++i) {
        const c10::IValue& given = torch::jit::peek(*stack, i, arguments.size());
        TORCH_CHECK(!given.isTensor() || !given.toTensor().requires_grad(), joined(arguments[i].name(), " requires a gradient, and gemm computes none: detach it, or call this under torch.no_grad()"));
    }
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

TORCH_LIBRARY(gemm, library)
{
    library.def("gemm(Tensor A, Tensor B, *, Tensor scale_n, Tensor zero_a, Tensor residual, float alpha=1) -> (Tensor, Tensor)");
    library.def("gemm_out(Tensor A, Tensor B, Tensor(a!) C, *, Tensor scale_n, Tensor zero_a, Tensor residual, Tensor(b!) aux, float alpha=1, float beta=0) -> ()");
}

TORCH_LIBRARY_IMPL(gemm, CUDA, library)
{
    library.impl("gemm", gemm);
    library.impl("gemm_out", gemm_out);
}

TORCH_LIBRARY_IMPL(gemm, Autograd, library)
{
    library.impl("gemm", torch::CppFunction::makeFromBoxedFunction<&without_gradient>());
    library.impl("gemm_out", torch::CppFunction::makeFromBoxedFunction<&without_gradient>());
}

TORCH_LIBRARY_IMPL(gemm, Meta, library)
{
    library.impl("gemm", gemm_shape);
    library.impl("gemm_out", gemm_out_shape);
}
