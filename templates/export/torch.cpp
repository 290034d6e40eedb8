/*# NAME_torch.cpp: operators of torch over the launcher. Host code only. #*/
//% set problem, batched = out.problem, out.problem.batched
// torch.ops.${ out.name }: gemm makes C${ " and what is written beside it" if op.written }, gemm_out writes to a given one. Nothing is copied: strides say how tensors lie.
//
//     ${ op.schema }
//     ${ op.out_schema }

#include "${ out.name }.h"

#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
//% if op.rounds_scalars
#include <cfloat>
//% endif
#include <climits>
//% if op.rounds_scalars
#include <cmath>
//% endif
#include <cstdint>
#include <string>
/*% if op.written %*/
#include <tuple>
/*% endif %*/
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
/*% if op.rounds_scalars %*/

// Of a number that is finite: infinity and NaN stay what they are.
float as_float(const char* name, double value)
{
    const float rounded = static_cast<float>(value);
    TORCH_CHECK(std::isfinite(rounded) || !std::isfinite(value), joined(name, " = ", to_string(value), " overflows float, whose largest number is ", to_string(FLT_MAX)));
    return rounded;
}
/*% endif %*/

void require_like(const char* name, const Tensor& x, const Tensor& a, at::ScalarType type)
{
    TORCH_CHECK(x.device() == a.device(), joined(name, " is on ", x.device().str(), ", and A on ", a.device().str()));
    TORCH_CHECK(x.scalar_type() == type, joined(name, " is of ", c10::toString(x.scalar_type()), ": this kernel takes ", c10::toString(type)));
}

void require_matrices(const Tensor& A, const Tensor& B)
{
//% if batched
    const auto dims = [](const Tensor& x) { return x.dim() == 2 || x.dim() == 3; };
    TORCH_CHECK(dims(A) && dims(B) && A.dim() + B.dim() > 4, joined("A is ", text(A.sizes()), " and B ", text(B.sizes()), ": this kernel takes a batch of matrices, of which A or B may be one for all"));
//% else
    TORCH_CHECK(A.dim() == 2 && B.dim() == 2, joined("A is ", text(A.sizes()), " and B ", text(B.sizes()), ": this kernel takes matrices"));
//% endif
}

//% if batched
// A matrix as the kernel takes it; `ld` and `stride` of -1 are left to run time, `unit` elements dividing them.
//% else
// A matrix as the kernel takes it; `ld` of -1 is left to run time, `unit` elements dividing it.
//% endif
struct Matrix {
    const char* name;
    at::ScalarType type;
    int64_t rows, cols;
    bool by_rows;
    int64_t ld, unit;
//% if batched
    int64_t batch, stride;
    bool may_be_shared;
//% endif
};

// Elements from one line of it to the next${ ", and from one matrix to the next" if batched }.
struct Place {
    int64_t ld${ ", stride" if batched };
};

Place place_of(const Matrix& m, const Tensor& x, const Tensor& a)
{
    require_like(m.name, x, a, m.type);
//% if batched
    const bool shared = m.may_be_shared && x.dim() == 2;
    const bool fits = (shared || (x.dim() == 3 && x.size(0) == m.batch)) && x.size(-2) == m.rows && x.size(-1) == m.cols;
    TORCH_CHECK(fits, joined(m.name, " is ", text(x.sizes()), ": this launch takes ", text({m.batch, m.rows, m.cols})));
//% else
    const bool fits = x.dim() == 2 && x.size(0) == m.rows && x.size(1) == m.cols;
    TORCH_CHECK(fits, joined(m.name, " is ", text(x.sizes()), ": this launch takes ", text({m.rows, m.cols})));
//% endif
    const int64_t length = m.by_rows ? m.cols : m.rows, lines = m.by_rows ? m.rows : m.cols;
    const int64_t along = x.stride(m.by_rows ? -1 : -2), across = x.stride(m.by_rows ? -2 : -1);
    TORCH_CHECK(length <= 1 || lines == 0 || along == 1, joined(m.name, " has strides ", text(x.strides()), ": this kernel reads it ", m.by_rows ? "row" : "column", "-major"));
    // Strides of a dimension of one element say nothing.
    const int64_t least = (std::max<int64_t>(1, length) + m.unit - 1) / m.unit * m.unit;
    const int64_t ld = lines > 1 && length > 0 ? across : m.ld >= 0 ? m.ld : least;
    TORCH_CHECK(m.ld < 0 || ld == m.ld, joined(m.name, " has strides ", text(x.strides()), ": this kernel is built for lines ", to_string(m.ld), " elements apart"));
//% if batched
    const bool single = m.batch <= 1 || length == 0 || lines == 0;
    const int64_t stride = shared ? 0 : !single ? x.stride(0) : m.stride >= 0 ? m.stride : lines * ld;
    TORCH_CHECK(m.stride < 0 || stride == m.stride, joined(m.name, " has strides ", text(x.strides()), ": this kernel is built for matrices ", to_string(m.stride), " elements apart"));
    return {ld, stride};
//% else
    return {ld};
//% endif
}
/*% if op.vectors %*/

void require_elements(const char* name, const Tensor& x, const Tensor& a, at::ScalarType type, at::IntArrayRef sizes)
{
    require_like(name, x, a, type);
    TORCH_CHECK(x.sizes() == sizes || (sizes.empty() && x.numel() == 1), joined(name, " is ", text(x.sizes()), ": this launch takes ", text(sizes)));
    TORCH_CHECK(x.is_contiguous(), joined(name, " has strides ", text(x.strides()), ": its elements have to follow each other"));
}
/*% endif %*/

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
//% if batched
    const int64_t batch = place.stride == 0 ? std::min<int64_t>(m.batch, 1) : m.batch;
    return {m.name, written, reinterpret_cast<uintptr_t>(x.const_data_ptr()), length * size, lines, place.ld * size, batch, place.stride * size};
//% else
    return {m.name, written, reinterpret_cast<uintptr_t>(x.const_data_ptr()), length * size, lines, place.ld * size, 1, 0};
//% endif
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

//% set parts = " / %d" | format(problem.products) if problem.products > 1
void gemm_out(${ op.out_parameters | map("join", " ") | join(", ") })
{
    require_matrices(A, B);
    const int64_t M = A.size(-2), N = B.size(-1)${ parts }, K = A.size(-1)${ ", batch = (A.dim() == 3 ? A : B).size(0)" if batched };
//% for name in ("M", "N", "K", "batch") if name in problem.sizes and op.fixed(name)
    TORCH_CHECK(${ name } == ${ op.fixed(name) }, joined("${ name } = ", to_string(${ name }), ": this kernel is built for ${ op.fixed(name) }"));
//% endfor
//% for m in op.matrices
    const Matrix matrix_${ m.name } = {"${ m.name }", ${ op.type(m.name) }, ${ m.rows }, ${ op.columns(m) }, ${ (m.order == "r") | lower }, ${ op.distance(m.ld) }, ${ op.units(m) }${ ", batch, %s, %s" | format(op.distance(m.stride), (m.stride != "stride_c") | lower) if batched }};
    const Place place_of_${ m.name } = place_of(matrix_${ m.name }, ${ m.name }, A);
//% endfor
//% for m in op.matrices if m.name in op.written
    const bool ${ m.name }_fits = place_of_${ m.name }.ld == place_of_C.ld${ " && place_of_%s.stride == place_of_C.stride" | format(m.name) if batched };
    TORCH_CHECK(${ m.name }_fits, joined("${ m.name } has strides ", text(${ m.name }.strides()), ", and C ", text(C.strides()), ": they lie alike"));
//% endfor
//% for v in op.vectors
    require_elements("${ v.name }", ${ v.name }, A, ${ op.type(v.name) }, {${ "batch, " if batched and v.is_amax }${ v.size or "" }});
//% endfor
    const Bytes operands[] = {
//% for m in op.matrices
        bytes_of(matrix_${ m.name }, place_of_${ m.name }, ${ m.name }, ${ (m.name in op.outputs) | lower }),
//% endfor
//% for v in op.vectors
        {"${ v.name }", ${ v.written | lower }, reinterpret_cast<uintptr_t>(${ v.name }.const_data_ptr()), ${ v.name }.numel() * ${ v.name }.element_size(), 1, 0, 1, 0},
//% endfor
    };
    for (const Bytes& c : operands)
        for (const Bytes& x : operands)
            TORCH_CHECK(!c.written || &x == &c || !meet(x, c), joined(c.name, " overlaps ", x.name, ": bytes ", to_string(c.first), " to ", to_string(c.end()), " and ", to_string(x.first), " to ", to_string(x.end())));
//% if out.amaxes
    if (C.numel() == 0) {  // there is no launch, which would set them
//% for name in out.amaxes
        ${ name }.zero_();
//% endfor
        return;
    }
/*% endif %*/

    const c10::cuda::CUDAGuard device(A.device());
//% if out.parts
    const size_t bytes = ${ out.name }_workspace_bytes(
//%- for name in out.runtime_sizes
as_int("${ name }", ${ name })${ ", " if not loop.last }
//%- endfor
);
    const Tensor workspace = at::empty({static_cast<int64_t>(bytes)}, A.options().dtype(at::kByte));
//% endif
    const cudaError_t status = ${ out.name }_launch(
//% for argument in op.passed
        ${ argument },
//% endfor
        ${ "workspace.data_ptr(), bytes" if out.parts else "nullptr, 0" }, c10::cuda::getCurrentCUDAStream());
    const char* const refusal = ${ out.name }_refusal();
    TORCH_CHECK(status == cudaSuccess, joined("${ out.name }: ", *refusal != '\0' ? refusal : cudaGetErrorString(status)));
}

//% set made = "std::tuple<%s>" | format((["Tensor"] * op.outputs | length) | join(", ")) if op.written else "Tensor"
// What `gemm` writes to.
${ made } make(const Tensor& A, const Tensor& B)
{
    require_matrices(A, B);
    const c10::SymInt M = A.sym_size(-2), N = B.sym_size(-1)${ parts }${ ", batch = (A.dim() == 3 ? A : B).sym_size(0)" if batched };
//% for name in op.outputs if name not in out.amaxes
    Tensor ${ name } = at::empty_strided_symint({${ "batch, " if batched }M, N}, {${ op.new_stride ~ ", " if batched }${ op.new_ld }, 1}, A.options().dtype(${ op.type(name) }));
//% endfor
//% for v in op.vectors if v.is_amax
    Tensor ${ v.name } = at::empty_symint({${ "batch, " if batched }${ v.size }}, A.options().dtype(${ op.type(v.name) }));
//% endfor
    return ${ "{%s}" | format(op.outputs | join(", ")) if op.written else "C" };
}

${ made } gemm(${ op.parameters | map("join", " ") | join(", ") })
{
    auto ${ "[%s]" | format(op.outputs | join(", ")) if op.written else "C" } = make(A, B);
    gemm_out(${ op.out_arguments | join(", ") });
    return ${ "{%s}" | format(op.outputs | join(", ")) if op.written else "C" };
}

// For tensors without data, as torch.compile has them.
${ made } gemm_shape(const Tensor& A, const Tensor& B${ op.parameters[2:] | map("first") | map("replace", "", ", ", 1) | join }) { return make(A, B); }

void gemm_out_shape(${ op.out_parameters | map("first") | join(", ") }) {}

// No gradient is computed here: tensors that require one are refused, so that none is lost.
void without_gradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack)
{
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; at::GradMode::is_enabled() && i < arguments.size(); ++i) {
        const c10::IValue& given = torch::jit::peek(*stack, i, arguments.size());
        TORCH_CHECK(!given.isTensor() || !given.toTensor().requires_grad(), joined(arguments[i].name(), " requires a gradient, and ${ out.name } computes none: detach it, or call this under torch.no_grad()"));
    }
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

TORCH_LIBRARY(${ out.name }, library)
{
    library.def("${ op.schema }");
    library.def("${ op.out_schema }");
}

TORCH_LIBRARY_IMPL(${ out.name }, CUDA, library)
{
    library.impl("gemm", gemm);
    library.impl("gemm_out", gemm_out);
}

TORCH_LIBRARY_IMPL(${ out.name }, Autograd, library)
{
    library.impl("gemm", torch::CppFunction::makeFromBoxedFunction<&without_gradient>());
    library.impl("gemm_out", torch::CppFunction::makeFromBoxedFunction<&without_gradient>());
}

TORCH_LIBRARY_IMPL(${ out.name }, Meta, library)
{
    library.impl("gemm", gemm_shape);
    library.impl("gemm_out", gemm_out_shape);
}
