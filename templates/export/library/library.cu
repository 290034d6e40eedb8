/*# NAME.cu: the dispatcher. Host code only. #*/
// The dispatcher of ${ lib.name }: which kernel serves which call. Rules are tried from the top, and the first that fits counts.
//% if lib.estimates
// Where a rule names times of several kernels, the one with the least estimated time serves.
//% endif
//% if lib.steps
// Where a rule names steps along a size, the first step whose bound is not less than the size names the kernel.
//% endif

#include "${ lib.name }.h"
/*% if not lib.run_by.all_known %*/

#if defined(__CUDA_ARCH__) && !(${ lib.run_by.compiled })
//% set name, run_by, flags = lib.name, lib.run_by, lib.gencode
//% include "export/architectures.cu"
#endif
/*% endif %*/

#include <algorithm>
#include <atomic>
#include <climits>
//% if lib.estimates
#include <cmath>
//% endif
#include <cstdint>
#include <cstdio>
#include <iterator>
//% if lib.calls_cublaslt
#include <initializer_list>
#include <mutex>

#include <cublasLt.h>
/*% endif %*/

//% for k in lib.kernels
#include "${ k.own_name }.h"
/*% endfor %*/

namespace {

using Args = ${ lib.name }_args;

thread_local char reason[200] = "";  // of the last refusal

template <typename... Values>
cudaError_t refuse(cudaError_t error, const char* format, Values... values)
{
    std::snprintf(reason, sizeof reason, format, values...);
    return error;
}

struct Kernel {
    const char* name;
    cudaError_t (*launch)(const Args& a, void* workspace, size_t workspace_bytes, cudaStream_t stream);
    size_t (*workspace_bytes)(const Args& a);
    const char* (*refusal)();
};

// What a call keeps beside its sizes, which kernels may need.
enum Keeps : unsigned {
    ANY = 0,
    ALIGNED = 1,  // addresses are divisible by 16 bytes, and leading dimensions and strides by as many elements as fit
    DENSE = 2,    // addresses are divisible by 16 bytes, and lines and matrices lie without a gap
};

constexpr int SIZE_LIMIT = ${ lib.most };  // rounding a size up to a tile must stay below 2^31
constexpr long long MOST = LLONG_MAX;

struct Range {
    long long least, most;

    bool holds(long long size) const { return least <= size && size <= most; }
};

constexpr Range ALL = {0, MOST};

//% if lib.estimates
//% include "export/library/estimates.cu"
//% endif
//% if lib.steps
//% include "export/library/steps.cu"
//% endif
struct Rule {
    unsigned needs;
    Range M, N, K, MN;  // of sizes, and of C's elements
    const Kernel* kernel;
//% if lib.estimates
    const Times* times = nullptr;  // of several kernels, where no single one is named
//% endif
//% if lib.steps
    const Steps* steps = nullptr;  // likewise
//% endif
};

// The rules of a product for devices of a compute capability (80: 8.0) and, unless `exact`, newer ones.
struct Table {
    int capability;
    bool exact;
    const Rule *begin, *end;
};

//% for k in lib.kernels
constexpr Kernel ${ k.name }_kernel = {
    "${ k.name }",
    [](const Args& a, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
//% if k.takes_packed
        ${ k.own_name }_plan plan;
        const cudaError_t status = ${ k.own_name }_make_packed_plan(
            &plan, ${ k.arguments | join(", ") }, workspace, workspace_bytes);
        return status == cudaSuccess ? ${ k.own_name }_run(&plan, stream) : status;
//% else
        return ${ k.own_name }_launch(
            ${ k.arguments | join(", ") }, workspace, workspace_bytes, stream);
//% endif
    },
    [](const Args&${ " a" if k.sizes }) { return ${ k.own_name }_workspace_bytes(${ k.sizes | join(", ") })${ " - %s_packed_bytes()" | format(k.own_name) if k.takes_packed }; },
    ${ k.own_name }_refusal,
};

//% endfor
//% if lib.calls_cublaslt
//% include "export/library/cublaslt.cu"
//% for p in lib.products if p.cublaslt
//% set lt, layout, batched = p.cublaslt, p.out.problem.layout, p.out.problem.batched
//% set a, trans_a = ("a.K, a.M", "false") if layout.a == "r" else ("a.M, a.K", "true")
//% set b, trans_b = ("a.N, a.K", "false") if layout.b == "r" else ("a.K, a.N", "true")
//% set batch, stride_a, stride_b, stride_c = ("a.batch", "a.stride_a", "a.stride_b", "a.stride_c") if batched else ("1", "0", "0", "0")
constexpr Kernel ${ p.name }_cublasLt_kernel = {
    "cublasLt",
    [](const Args& a, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
        return call_cublaslt<${ p.out.element.scalar }>(a, ${ batch }, ${ lt.compute }, ${ lt.types[3] },
            {${ lt.types[0] }, ${ a }, a.lda, ${ stride_a }}, ${ trans_a },
            {${ lt.types[1] }, ${ b }, a.ldb, ${ stride_b }}, ${ trans_b },
            {${ lt.types[2] }, a.N, a.M, a.ldc, ${ stride_c }}, workspace, workspace_bytes, stream);
    },
    [](const Args&) { return CUBLASLT_WORKSPACE; },
    ${ lib.name }_refusal,
};

//% endfor
//% endif
//% for p in lib.products
// ${ p.name }: C = ${ p.out.formula }
//
//% for t in p.tables
//% for e in t.estimates
constexpr Cost ${ e.name }_costs[] = {
    // kernel, rows, columns, blocks, at_once,
    //  start, wave, wave_k, turn, turn_k, c, ab
//% for k in e.kernels
    {&${ k.kernel }_kernel, ${ k.tiling.rows }, ${ k.tiling.columns }, ${ k.tiling.blocks }, ${ k.tiling.at_once },
        ${ k.costs | join(", ") }},
//% endfor
};
constexpr double ${ e.name }_factors[] = {  // of these kernels, for M x N x K
//% for sizes, factors in e.nodes
    ${ factors | join(", ") },  // ${ sizes }
//% endfor
};
constexpr Times ${ e.name } = {
    ${ e.estimates.sms }, ${ p.out.takes_batch | lower }, ${ e.kernels | length },
//% for axis in e.estimates.axes
    {${ axis.first }, ${ axis.per_octave }, ${ axis.nodes }},
//% endfor
    ${ e.name }_costs, ${ e.name }_factors,
};

//% endfor
//% for s in t.steps
constexpr Step ${ s.name }_list[] = {
    // ${ s.axis } up to, kernel
//% for bound, kernel in s.steps
    {${ bound }, &${ kernel }_kernel},
//% endfor
};
constexpr Steps ${ s.name } = {&Args::${ s.axis }, std::begin(${ s.name }_list), std::end(${ s.name }_list) - 1};

//% endfor
// On ${ t.choice.arch }${ " alone" if t.exact }: ${ t.source }.
constexpr Rule ${ t.name }[] = {
    // needs  ${ t.heading }kernel
//% for r in t.rules
    {${ "%-9s" | format(r.needs ~ ",") }${ r.columns }${ r.decides }},
//% endfor
};

//% endfor
constexpr Table ${ p.name }_tables[] = {
//% for t in p.tables
    {${ t.least }, ${ t.exact | lower }, std::begin(${ t.name }), std::end(${ t.name })},
//% endfor
};

//% if p.out.fixed_sizes
// Puts numbers to sizes that are the same in every call, and refuses sizes that no kernel computes.
//% else
// Refuses sizes that no kernel computes.
//% endif
cudaError_t check_sizes_${ p.name }(${ "Args" if lib.fixes_sizes else "const Args" }& a)
{
//% for name, size in p.out.fixed_sizes.items()
    if (a.${ name } == 0) a.${ name } = ${ size };
    if (a.${ name } != ${ size }) return refuse(cudaErrorInvalidValue, "${ name } = %d: ${ "B is packed for" if p.out.takes_packed else "filters have" } %d", a.${ name }, ${ size });
//% endfor
//% for size in p.out.runtime_sizes
    if (a.${ size } < 0 || a.${ size } > SIZE_LIMIT) return refuse(cudaErrorInvalidValue, "${ size } = %d is not in 0 to %d", a.${ size }, SIZE_LIMIT);
//% endfor
    return cudaSuccess;
}

// Puts numbers to what a call leaves open, and refuses what no kernel computes. Sizes were checked.
cudaError_t complete_${ p.name }(Args& a)
{
//% for ld in p.out.runtime_lds
    if (a.${ ld.name } == 0) a.${ ld.name } = std::max(${ ld.unit if p.product.moved else 1 }, ${ ld.line_of("a") });
    if (a.${ ld.name } < ${ ld.line_of("a") }) return refuse(cudaErrorInvalidValue, "${ ld.name } = %d is less than %d", a.${ ld.name }, ${ ld.line_of("a") });
//% if ld.unit > 1
    if (a.${ ld.name } % ${ ld.unit } != 0) return refuse(cudaErrorInvalidValue, "${ ld.name } = %d is no multiple of %d elements", a.${ ld.name }, ${ ld.unit });
//% endif
//% endfor
//% for x in p.out.runtime_strides
    const long long least_${ x.name } = ${ x.least("a") };
    if (a.${ x.name } < least_${ x.name }) return refuse(cudaErrorInvalidValue, "${ x.name } = %lld is less than %lld", static_cast<long long>(a.${ x.name }), least_${ x.name });
//% if x.unit > 1
    if (a.${ x.name } % ${ x.unit } != 0) return refuse(cudaErrorInvalidValue, "${ x.name } = %lld is no multiple of %d elements", static_cast<long long>(a.${ x.name }), ${ x.unit });
//% endif
//% endfor
    if (${ p.out.may_be_empty | map("replace", "", "a.", 1) | join(" == 0 || ") } == 0) return cudaSuccess;  // C has no elements
//% for name in p.out.located
//% set null = "a.%s == nullptr" | format(name)
    if (${ "a.K > 0 && " ~ null if name in p.out.may_be_null else null }) return refuse(cudaErrorInvalidValue, "%s is null", "${ name }");
//% set align = p.out.aligns[p.out.located[name]]
//% if align > 1
    if (reinterpret_cast<std::uintptr_t>(a.${ name }) % ${ align } != 0) return refuse(cudaErrorMisalignedAddress, "${ name } = %p is no multiple of %d bytes", a.${ name }, ${ align });
//% endif
//% endfor
    return cudaSuccess;
}

bool empty_${ p.name }(const Args& a) { return ${ p.out.may_be_empty | map("replace", "", "a.", 1) | join(" == 0 || ") } == 0; }

unsigned keeps_${ p.name }(const Args& a)
{
//% if not p.out.problem.pointers
    const std::uintptr_t addresses =
//%- for name in p.out.located
 reinterpret_cast<std::uintptr_t>(a.${ name })${ " |" if not loop.last }
//%- endfor
;
    if (addresses % 16 != 0) return ANY;
//% endif
    const bool aligned = (
//%- for name in p.distances
a.${ name }${ " | " if not loop.last }
//%- endfor
) % ${ p.product.unit } == 0;
    const bool dense =
//%- for ld in p.out.runtime_lds
 a.${ ld.name } == std::max(1, ${ ld.line_of("a") })${ " &&" if not loop.last or p.out.runtime_strides }
//%- endfor
//%- for x in p.out.runtime_strides
 a.${ x.name } == (long long)${ x.lines_of("a") } * a.${ x.ld }${ " &&" if not loop.last }
//%- endfor
;
    return (aligned ? ALIGNED : ANY) | (dense ? DENSE : ANY);
}

//% endfor
struct Product {
    cudaError_t (*check_sizes)(${ "Args" if lib.fixes_sizes else "const Args" }& a);
    cudaError_t (*complete)(Args& a);
    bool (*empty)(const Args& a);
    unsigned (*keeps)(const Args& a);
    const Table *begin, *end;
};

constexpr Product PRODUCTS[] = {
//% for p in lib.products
    {check_sizes_${ p.name }, complete_${ p.name }, empty_${ p.name }, keeps_${ p.name }, std::begin(${ p.name }_tables), std::end(${ p.name }_tables)},
//% endfor
};

// The current device's compute capability, asked once of each device.
cudaError_t capability_here(int& capability)
{
    constexpr int DEVICES = 64;  // those beyond are asked each time
    static std::atomic<int> known[DEVICES];
    int device = 0, major = 0, minor = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess && device < DEVICES) capability = known[device].load(std::memory_order_relaxed);
    if (status != cudaSuccess || capability != 0) return status;
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    capability = 10 * major + minor;
    if (status == cudaSuccess && device < DEVICES) known[device].store(capability, std::memory_order_relaxed);
    return status;
}

// The rules for the current device.
cudaError_t table_here(const Product& product, const Table*& table)
{
    int capability = 0;
    const cudaError_t status = capability_here(capability);
    if (status != cudaSuccess) return refuse(status, "no device: %s", cudaGetErrorString(status));
    for (table = product.begin; table != product.end; ++table)
        if (capability == table->capability || (capability > table->capability && !table->exact)) return cudaSuccess;
    return refuse(cudaErrorNoKernelImageForDevice, "the device is an sm_%d: there are kernels for ${ lib.spec.architectures | join(", ") }", capability);
}

bool fits(const Rule& rule, const Args& a)
{
    return rule.M.holds(a.M) && rule.N.holds(a.N) && rule.K.holds(a.K) && rule.MN.holds(static_cast<long long>(a.M) * a.N);
}

const Kernel* decided(const Rule& rule, const Args&${ " a" if lib.steps or lib.estimates })
{
//% if lib.steps
    if (rule.steps != nullptr) return step_of(*rule.steps, a);
//% endif
//% if lib.estimates
    if (rule.times != nullptr) return fastest(*rule.times, a);
//% endif
    return rule.kernel;
}

// The most workspace that a kernel of a rule needs for a call.
size_t workspace_of(const Rule& rule, const Args& a)
{
    size_t most = rule.kernel == nullptr ? 0 : rule.kernel->workspace_bytes(a);
//% if lib.steps
    if (rule.steps != nullptr)
        for (const Step* step = rule.steps->begin; step <= rule.steps->last; ++step)
            most = std::max(most, step->kernel->workspace_bytes(a));
//% endif
//% if lib.estimates
    if (rule.times != nullptr)
        for (int i = 0; i < rule.times->kernels; ++i)
            most = std::max(most, rule.times->costs[i].kernel->workspace_bytes(a));
//% endif
    return most;
}

// The kernel for a call, which it completes: none where C has no elements.
cudaError_t choose(const Args* args, Args& a, const Kernel*& kernel)
{
    reason[0] = '\0';
    kernel = nullptr;
    if (args == nullptr) return refuse(cudaErrorInvalidValue, "%s is null", "args");
    const auto number = static_cast<unsigned>(args->product);
    if (number >= std::size(PRODUCTS)) return refuse(cudaErrorInvalidValue, "product = %u is not in 0 to %u", number, unsigned(std::size(PRODUCTS)) - 1);
    const Product& product = PRODUCTS[number];
    a = *args;
    cudaError_t status = product.check_sizes(a);
    if (status == cudaSuccess) status = product.complete(a);
    if (status != cudaSuccess || product.empty(a)) return status;
    const Table* table = nullptr;
    status = table_here(product, table);
    if (status != cudaSuccess) return status;
    const unsigned keeps = product.keeps(a);
    const Rule* rule = table->begin;
    while ((rule->needs & ~keeps) != 0 || !fits(*rule, a)) ++rule;  // the last rule fits every call
    kernel = decided(*rule, a);
    return cudaSuccess;
}

}  // namespace

extern "C" cudaError_t ${ lib.name }_gemm(const ${ lib.name }_args* args, void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Args a;
    const Kernel* kernel;
    const cudaError_t status = choose(args, a, kernel);
    if (kernel == nullptr) return status;
    const cudaError_t launched = kernel->launch(a, workspace, workspace_bytes, stream);
    if (launched != cudaSuccess && kernel->refusal() != reason) refuse(launched, "%s", kernel->refusal());
    return launched;
}

extern "C" size_t ${ lib.name }_workspace_bytes(const ${ lib.name }_args* args)
{
    reason[0] = '\0';
    if (args == nullptr || static_cast<unsigned>(args->product) >= std::size(PRODUCTS)) return 0;
    const Product& product = PRODUCTS[args->product];
    const Table* table = nullptr;
//% set args = "a" if lib.fixes_sizes else "*args"
//% if lib.fixes_sizes
    Args a = *args;
//% endif
    if (product.check_sizes(${ args }) != cudaSuccess || product.empty(${ args })) return 0;
    if (table_here(product, table) != cudaSuccess) return 0;
    size_t most = 0;
    for (const Rule* rule = table->begin; rule != table->end; ++rule)
        if (fits(*rule, ${ args })) most = std::max(most, workspace_of(*rule, ${ args }));
    return most;
}

extern "C" const char* ${ lib.name }_kernel(const ${ lib.name }_args* args)
{
    Args a;
    const Kernel* kernel;
    choose(args, a, kernel);
    return kernel == nullptr ? nullptr : kernel->name;
}

extern "C" const char* ${ lib.name }_status_text(cudaError_t status)
{
    switch (status) {
//% for status in lib.statuses
    case ${ status.name }: return "${ status.meaning }";
//% endfor
    default: return cudaGetErrorString(status);
    }
}

extern "C" const char* ${ lib.name }_refusal(void) { return reason; }

//% for p in lib.products
extern "C" cudaError_t ${ p.out.name }(
//% for a in p.arguments
    ${ a.ctype } ${ a.text },
//% endfor
    void* workspace, size_t workspace_bytes, cudaStream_t stream)
{
    Args a = {};
    a.product = ${ lib.name | upper }_${ p.name | upper };
//% for field, argument in p.fields
    a.${ field } = ${ "const_cast<void*>(static_cast<const void*>(C_array))" if argument.text == "C_array" else argument.text };
//% endfor
    return ${ lib.name }_gemm(&a, workspace, workspace_bytes, stream);
}

extern "C" size_t ${ p.out.name }_workspace_bytes(${ p.out.runtime_sizes | map("replace", "", "int ", 1) | join(", ") })
{
    Args a = {};
    a.product = ${ lib.name | upper }_${ p.name | upper };
//% for size in p.out.runtime_sizes
    a.${ size } = ${ size };
//% endfor
    return ${ lib.name }_workspace_bytes(&a);
}

//% if p.packs
extern "C" cudaError_t ${ p.out.name }_pack_b(
${ p.out.declared(p.out.packing, behind="void* packed, cudaStream_t stream") })
{
    reason[0] = '\0';
    const Table* table = nullptr;
    const cudaError_t status = table_here(PRODUCTS[${ lib.name | upper }_${ p.name | upper }], table);
    if (status != cudaSuccess) return status;
//% for t, kernel in p.packs
    if (table->capability == ${ t.least }) {
        const cudaError_t packs = ${ lib.name }_${ kernel }_pack_b(${ p.out.packing | map(attribute="text") | join(", ") }, packed, stream);
        return packs == cudaSuccess ? packs : refuse(packs, "%s", ${ lib.name }_${ kernel }_refusal());
    }
//% endfor
    return cudaErrorNoKernelImageForDevice;
}

extern "C" size_t ${ p.out.name }_packed_bytes(void)
{
    size_t most = 0;
//% for _, kernel in p.packs
    most = std::max(most, ${ lib.name }_${ kernel }_packed_bytes());
//% endfor
    return most;
}

//% endif
//% endfor
//% if lib.quantised
//% include "export/library/quantise.cu"
//% endif
