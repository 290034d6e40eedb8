/*# main() that checks NAME_launch on the reader's GPU. Host code only: any C++17 compiler takes it. #*/
// Checks ${ out.name } on this machine's GPU. Needs CUDA's runtime and nothing else.
//
//   exact   small integers: every product and sum is representable, so C must match bit for bit
//   random  uniform in [-1, 1), against ${ out.wide } arithmetic, with a bound for each element's error
//
// NaN fills C before a run with beta = 0, the padding between lines, and bands around A, B and C: what
// reads there fails, and so does what writes there. Prints PASS or FAIL for each check; exits with 0 if all pass.

#include "${ out.name }.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

// Sizes, leading dimensions and strides between products, in elements.
struct Shape {
    int ${ out.shape_fields | join(", ") };
    long long ${ out.shape_strides | join(", ") };
};

constexpr Shape SHAPES[] = {
//% for case in shapes
    {
//%- for name in out.shape_fields + out.shape_strides
${ case[name | lower] }${ ", " if not loop.last }
//%- endfor
},
//% endfor
};

struct Scalars {
    ${ T } alpha, beta;
};

constexpr Scalars SCALARS[] = {{1, 0}, {3, -2}};

enum class Data { exact, random };

struct Check {
    Shape shape;
    Data data;
    Scalars scalars;
};

constexpr double UNIT_ROUNDOFF = 1.0 / (1LL << ${ out.precision });      // of ${ out.dtype }
constexpr double LAMBDA = ${ out.bound_lambda };                           // standard deviations that an error may reach
//% if out.dtype == "f64"
// Rounding errors of the reference count where long double is a double, as it is for some compilers.
constexpr double SHARES = std::numeric_limits<long double>::digits > 53 ? 1 : 2;
//% endif
constexpr ${ T } LARGEST_EXACT = 1LL << ${ out.precision };               // below it ${ out.dtype } holds every integer
constexpr double REFERENCE_BUDGET = 1 << 30;             // multiply-adds a check: a second or two of the host
constexpr ${ T } NOTHING = std::numeric_limits<${ T }>::quiet_NaN();
constexpr std::size_t BAND = 1024 + ${ out.pointer_align } / sizeof(${ T });  // elements; leaves addresses the promised alignment, no more

//% if out.pointers
// Matrices lie in the opposite order of their products: what follows from a pointer is in nobody's memory, or another's.
int slot(const Shape& s, int p) { return s.batch - 1 - p; }

//% endif
// Where elements of product p lie.
std::size_t at_a(const Shape& s, int p, int m, int k) { return std::size_t(${ "slot(s, p)" if out.pointers else "p" }) * s.stride_a + std::size_t(${ "m" if out.layout.a == "r" else "k" }) * s.lda + ${ "k" if out.layout.a == "r" else "m" }; }
std::size_t at_b(const Shape& s, int p, int k, int n) { return std::size_t(${ "slot(s, p)" if out.pointers else "p" }) * s.stride_b + std::size_t(${ "k" if out.layout.b == "r" else "n" }) * s.ldb + ${ "n" if out.layout.b == "r" else "k" }; }
std::size_t at_c(const Shape& s, int p, int m, int n) { return std::size_t(${ "slot(s, p)" if out.pointers else "p" }) * s.stride_c + std::size_t(m) * s.ldc + n; }

//% for x in out.epilogue.operands
std::size_t at_${ x.name }(${ "const Shape& s, int p" if x.is_matrix else "const Shape&, int" }, int${ " m" if "m" in x.along }, int${ " n" if "n" in x.along }) { return ${ "std::size_t(p) * s.stride_%s + std::size_t(m) * s.%s + n" | format(x.name, x.ld) if x.is_matrix else x.along or "0" }; }
//% endfor
//% if out.extra

// Where the epilogue's operands are.
struct Extra {
//% for name in out.extra
    const ${ T }* ${ name };
//% endfor
};

//% endif
//% if out.adds_up
// Device memory that grows with the shapes. Semaphores are set to zero only when they are new: launches leave them so.
struct Workspace {
    void *partials = nullptr, *semaphores = nullptr;
    size_t partials_bytes = 0, semaphores_bytes = 0;

    cudaError_t reserve(const Shape& s)
    {
        [[maybe_unused]] const auto& [${ (out.shape_fields + out.shape_strides) | join(", ") }] = s;
        const size_t partials_needed = ${ out.name }_partials_bytes(${ out.workspace_sizes | join(", ") });
        const size_t semaphores_needed = ${ out.name }_semaphores_bytes(${ out.workspace_sizes | join(", ") });
        if (partials_needed <= partials_bytes && semaphores_needed <= semaphores_bytes) return cudaSuccess;
        cudaFree(partials);
        cudaFree(semaphores);
        partials_bytes = std::max(partials_bytes, partials_needed);
        semaphores_bytes = std::max(semaphores_bytes, semaphores_needed);
        const std::vector<unsigned> zeros(semaphores_bytes / sizeof(unsigned));
        cudaError_t status = cudaMalloc(&partials, partials_bytes);
        if (status == cudaSuccess) status = cudaMalloc(&semaphores, semaphores_bytes);
        return status == cudaSuccess ? cudaMemcpy(semaphores, zeros.data(), semaphores_bytes, cudaMemcpyHostToDevice) : status;
    }
};

Workspace workspace;

//% endif
//% set A, B, C = out.operands
//% set to_const, to = out.parameters[0].ctype, out.parameters[2].ctype
cudaError_t launch(const Shape& s, ${ to_const } ${ A }, ${ to_const } ${ B }, ${ to } ${ C }, ${ "const Extra& extra, " if out.extra }Scalars scalars)
{
    [[maybe_unused]] const auto& [${ (out.shape_fields + out.shape_strides) | join(", ") }] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
//% if out.extra
    const auto& [${ out.extra | join(", ") }] = extra;
//% endif
//% if out.adds_up
    if (M > 0 && N > 0 && batch > 0) {
        const cudaError_t status = workspace.reserve(s);
        if (status != cudaSuccess) return status;
    }
    ${ T }* const partials = static_cast<${ T }*>(workspace.partials);
    unsigned* const semaphores = static_cast<unsigned*>(workspace.semaphores);
//% endif
    return ${ out.name }_launch(${ out.parameters | map(attribute="text") | join(", ") }, nullptr);
}

// SplitMix64: the same numbers on every machine.
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits()
    {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    int below(int end) { return int((bits() >> 32) * std::uint64_t(end) >> 32); }
    ${ T } integer(int reach) { return ${ T }(below(2 * reach + 1) - reach); }
    ${ T } uniform() { return ${ T }(std::int64_t(bits() >> ${ 64 - out.precision }) - (1LL << ${ out.precision - 1 })) / (1LL << ${ out.precision - 1 }); }

private:
    std::uint64_t state_;
};

[[noreturn]] void stop(const char* what, cudaError_t status)
{
    std::printf("FAIL  %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

void must(const char* what, cudaError_t status)
{
    if (status != cudaSuccess) stop(what, status);
}

// Matrices of rows x cols as they lie in memory: band, lines with padding between them, band.
struct Storage {
    std::vector<${ T }> elements;

    template <typename At, typename Value>
    Storage(int batch, int rows, int cols, At at, Value value)
        : elements(2 * BAND + (rows > 0 && cols > 0 ? at(${ "0" if out.pointers else "batch - 1" }, rows - 1, cols - 1) + 1 : 0), NOTHING)
    {
        for (int p = 0; p < batch; ++p)
            for (int row = 0; row < rows; ++row)
                for (int col = 0; col < cols; ++col) elements[BAND + at(p, row, col)] = value();
    }

    ${ T } operator[](std::size_t element) const { return elements[BAND + element]; }
    std::size_t bytes() const { return elements.size() * sizeof(${ T }); }
};

// A Storage on the device.
class DeviceCopy {
public:
    explicit DeviceCopy(const Storage& host)
    {
        must("cudaMalloc", cudaMalloc(&memory_, host.bytes()));
        must("copy to the device", cudaMemcpy(memory_, host.elements.data(), host.bytes(), cudaMemcpyHostToDevice));
    }
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;
    ~DeviceCopy() { cudaFree(memory_); }

    ${ T }* matrix() const { return static_cast<${ T }*>(memory_) + BAND; }

    Storage read(Storage like) const
    {
        must("copy from the device", cudaMemcpy(like.elements.data(), memory_, like.bytes(), cudaMemcpyDeviceToHost));
        return like;
    }

private:
    void* memory_ = nullptr;
};

//% if out.pointers
// The array of pointers to a check's matrices, on the device.
class DevicePointers {
public:
    template <typename At>
    DevicePointers(const DeviceCopy& matrices, int batch, At at)
    {
        std::vector<${ T }*> pointers;
        for (int p = 0; p < batch; ++p) pointers.push_back(matrices.matrix() + at(p));
        const std::size_t bytes = pointers.size() * sizeof(${ T }*);
        must("cudaMalloc", cudaMalloc(&memory_, bytes));
        must("copy to the device", cudaMemcpy(memory_, pointers.data(), bytes, cudaMemcpyHostToDevice));
    }
    DevicePointers(const DevicePointers&) = delete;
    DevicePointers& operator=(const DevicePointers&) = delete;
    ~DevicePointers() { cudaFree(memory_); }

    ${ T }* const* array() const { return static_cast<${ T }* const*>(memory_); }

private:
    void* memory_ = nullptr;
};

//% endif
// The operands of a check: C before the run holds NaN where beta = 0.
struct Operands {
    Storage a, b, c${ ", " if out.extra }${ out.extra | join(", ") };
};

Operands make_operands(const Check& check)
{
    const auto& [s, data, scalars] = check;
    // |alpha K reach^2| + |beta reach| stays below LARGEST_EXACT. For K beyond that a sum of random signs is
    // near sqrt(K), far below it.
    const double most = LARGEST_EXACT / (std::fabs(scalars.alpha) * std::max(1, s.K) + std::fabs(scalars.beta));
    const int reach = int(std::min(8.0, std::max(1.0, std::sqrt(most))));
    Random random(s.M * 3u + s.N * 5u + s.K * 7u);
    const auto value = [&, exact = data == Data::exact] { return exact ? random.integer(reach) : random.uniform(); };
//% if "scale_" in out.extra | join
    const auto factor = [&, exact = data == Data::exact] { return exact ? ${ T }(1 << random.below(3)) / 2 : random.uniform(); };
//% endif
    const auto before = [&, unread = scalars.beta == 0] { return unread ? NOTHING : value(); };
    const Shape& shape = s;
    return {Storage(s.batch, s.M, s.K, [&](int p, int m, int k) { return at_a(shape, p, m, k); }, value),
            Storage(s.batch, s.K, s.N, [&](int p, int k, int n) { return at_b(shape, p, k, n); }, value),
            Storage(s.batch, s.M, s.N, [&](int p, int m, int n) { return at_c(shape, p, m, n); }, before)
//%- for x in out.epilogue.operands
,
            Storage(${ "s.batch" if x.is_matrix else "1" }, ${ "s.M" if "m" in x.along else "1" }, ${ "s.N" if "n" in x.along else "1" }, [&](int p, int m, int n) { return at_${ x.name }(shape, p, m, n); }, ${ "factor" if x.name[:6] == "scale_" else "value" })
//%- endfor
};
}

struct Expected {
    ${ out.wide } value;
    double bound;  // of the error
};

//% if out.reference
// A value, and what a kernel's may be off by.
struct Bounded {
    ${ out.wide } value;
    double bound;
};

// A result with what its operands' errors make of it, and its own rounding: none where the type holds an exact result.
Bounded rounded(${ out.wide } value, double inherited)
{
    const bool held = inherited == 0 && static_cast<${ T }>(value) == value;
    const double own = UNIT_ROUNDOFF * (std::fabs(double(value)) + inherited) + std::numeric_limits<${ T }>::denorm_min();
    return {value, held ? 0 : inherited + ${ "SHARES * " if out.dtype == "f64" }own};
}

[[maybe_unused]] Bounded number(double value) { return rounded(value, 0); }
[[maybe_unused]] Bounded operator-(Bounded a) { return {-a.value, a.bound}; }
[[maybe_unused]] Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.bound + b.bound); }
[[maybe_unused]] Bounded operator-(Bounded a, Bounded b) { return rounded(a.value - b.value, a.bound + b.bound); }
[[maybe_unused]] Bounded operator*(Bounded a, Bounded b)
{
    const double x = std::fabs(double(a.value)), y = std::fabs(double(b.value));
    return rounded(a.value * b.value, x * b.bound + y * a.bound + a.bound * b.bound);
}
[[maybe_unused]] Bounded operator/(Bounded a, Bounded b)
{
    const double ratio = std::fabs(double(a.value / b.value));
    return rounded(a.value / b.value, (a.bound + ratio * b.bound) / (std::fabs(double(b.value)) - b.bound));
}

//% if out.reference.functions | selectattr("ulps") | list
// A function that rises or falls, of which CUDA's is off by `ulps` units in the last place.
template <typename Function>
Bounded called(Function f, double ulps, Bounded x)
{
    const ${ out.wide } value = f(x.value), off = x.bound;
    const double inherited = double(std::max(std::fabs(f(x.value + off) - value), std::fabs(f(x.value - off) - value)));
    const double own = 2 * ulps * UNIT_ROUNDOFF * (std::fabs(double(value)) + inherited) + std::numeric_limits<${ T }>::min();
    return {value, inherited + ${ "SHARES * " if out.dtype == "f64" }own};
}

//% endif
//% for f in out.reference.functions
Bounded ${ f.name }(Bounded ${ f.parameters | join(", Bounded ") })
{
//% if f.defined
    return ${ f.text };
//% else
    const auto f = [](${ out.wide } ${ f.parameters | join(", %s " | format(out.wide)) }) -> ${ out.wide } {
//% if f.library
        using std::${ f.library | join(", std::") };
//% endif
        return ${ f.text };
    };
//% if f.ulps
    return called(f, ${ f.ulps }, x);
//% else
    return {f(${ f.parameters | join(".value, ") }.value), std::max({${ f.parameters | join(".bound, ") }.bound})};
//% endif
//% endif
}

//% endfor
//% endif
// Row m of product p, in ${ out.wide } arithmetic.
std::vector<Expected> reference_row(const Check& check, const Operands& x, int p, int m)
{
    const Shape& s = check.shape;
//% set sums = out.epilogue.sums
    std::vector<${ out.wide }> row_of_a(s.K), sum(s.N), magnitude(s.N)${ ", column(s.N), column_magnitude(s.N)" if "column_sum" in sums };
    for (int k = 0; k < s.K; ++k) row_of_a[k] = x.a[at_a(s, p, m, k)];
//% if "row_sum" in sums
    ${ out.wide } row = 0, row_magnitude = 0;
    for (const ${ out.wide } a : row_of_a) row += a, row_magnitude += std::fabs(a);
//% endif
//% for line, end in ([("k", "K"), ("n", "N")] if out.layout.b == "r" else [("n", "N"), ("k", "K")])
    ${ "    " * loop.index0 }for (int ${ line } = 0; ${ line } < s.${ end }; ++${ line })${ " {" if loop.last }
//% endfor
            const ${ out.wide } product = row_of_a[k] * x.b[at_b(s, p, k, n)];
            sum[n] += product;
            magnitude[n] += std::fabs(product);
//% if "column_sum" in sums
            column[n] += x.b[at_b(s, p, k, n)];
            column_magnitude[n] += std::fabs(x.b[at_b(s, p, k, n)]);
//% endif
        }
//% if out.reference
    // Rounding errors add up like a random walk (Higham and Mary, 2019): of K products.
    const double roundoffs = check.data == Data::exact ? 0.0 : ${ "SHARES * " if out.dtype == "f64" }LAMBDA * std::sqrt(double(s.K));
    std::vector<Expected> results(s.N);
    for (int n = 0; n < s.N; ++n) {
        const Bounded acc = {sum[n], roundoffs * UNIT_ROUNDOFF * double(magnitude[n])};
//% for name in sums
        const Bounded ${ name } = {${ {"row_sum": "row", "column_sum": "column[n]"}[name] }, roundoffs * UNIT_ROUNDOFF * double(${ {"row_sum": "row_magnitude", "column_sum": "column_magnitude[n]"}[name] })};
//% endfor
//% if out.epilogue.reads_depth
        const Bounded K = {${ out.wide }(s.K), 0};
//% endif
//% for name in out.epilogue.scalars
        const Bounded ${ name } = {check.scalars.${ name }, 0};
//% endfor
//% if out.epilogue.reads_c
        const Bounded C = {check.scalars.beta == 0 ? 0 : x.c[at_c(s, p, m, n)], 0};
//% endif
//% for name in out.extra
        const Bounded ${ name } = {x.${ name }[at_${ name }(s, p, m, n)], 0};
//% endfor
        const Bounded result = ${ out.reference.result };
        results[n] = {result.value, result.bound};
    }
    return results;
}

//% else
    // Rounding errors add up like a random walk (Higham and Mary, 2019): of K products, alpha and beta.
    const double roundoffs = check.data == Data::exact ? 0.0 : ${ "SHARES * " if out.dtype == "f64" }LAMBDA * std::sqrt(s.K + 2.0);
    std::vector<Expected> row(s.N);
    for (int n = 0; n < s.N; ++n) {
        const auto [alpha, beta] = check.scalars;
        const ${ out.wide } old = beta == 0 ? 0 : static_cast<${ out.wide }>(beta) * x.c[at_c(s, p, m, n)];
        row[n].value = alpha * sum[n] + old;
        row[n].bound = roundoffs * UNIT_ROUNDOFF * double(std::fabs(alpha) * magnitude[n] + std::fabs(old));
    }
    return row;
}
//% endif

int rows_of_all(const Shape& s) { return s.batch * s.M; }

// All rows of all products if the budget allows; else the first, the last and a seeded choice of the others.
std::vector<int> rows_to_check(const Shape& s)
{
    const double affordable = REFERENCE_BUDGET / (double(s.N) * std::max(1, s.K));
    std::vector<int> rows;
    const int all = rows_of_all(s);
    if (all <= affordable) {
        for (int row = 0; row < all; ++row) rows.push_back(row);
        return rows;
    }
    rows = {0, all - 1};
    for (Random random(all); rows.size() < affordable;) rows.push_back(random.below(all));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

//% if not out.reference
// An integer modulo 2^64, where sums and products of whole rows are exact.
std::uint64_t whole(${ T } value) { return std::uint64_t(std::int64_t(value)); }

// The first row of all in which some element is wrong, or their number: Freivalds' check, for exact data only. C x must be
// alpha A (B x) + beta C x for any x. The weights x are odd, so no wrong element can vanish on its own.
int first_row_off(const Check& check, const Operands& x, const Storage& c)
{
    const auto& [s, data, scalars] = check;
    Random random(s.N);
    std::vector<std::uint64_t> weights(s.N);
    for (std::uint64_t& weight : weights) weight = random.bits() | 1;
    for (int p = 0; p < s.batch; ++p) {
        std::vector<std::uint64_t> b_weights(s.K);
        for (int k = 0; k < s.K; ++k)
            for (int n = 0; n < s.N; ++n) b_weights[k] += whole(x.b[at_b(s, p, k, n)]) * weights[n];
        for (int m = 0; m < s.M; ++m) {
            std::uint64_t difference = 0;
            for (int k = 0; k < s.K; ++k) difference += whole(scalars.alpha) * whole(x.a[at_a(s, p, m, k)]) * b_weights[k];
            for (int n = 0; n < s.N; ++n) {
                const ${ T } got = c[at_c(s, p, m, n)], old = scalars.beta == 0 ? 0 : x.c[at_c(s, p, m, n)];
                if (!(std::fabs(got) <= LARGEST_EXACT) || got != std::trunc(got)) return p * s.M + m;
                difference += (whole(scalars.beta) * whole(old) - whole(got)) * weights[n];
            }
            if (difference != 0) return p * s.M + m;
        }
    }
    return rows_of_all(s);
}

//% endif
std::string describe(const Check& check)
{
    const auto& [s, data, scalars] = check;
    char text[300];
    std::snprintf(text, sizeof text, "%dx%dx%d${ " batch=%d strides=%lld,%lld,%lld" if out.batched } lda=%d ldb=%d ldc=%d %s alpha=%g beta=%g", s.M, s.N, s.K,${ " s.batch, s.stride_a, s.stride_b, s.stride_c," if out.batched } s.lda, s.ldb,
                  s.ldc, data == Data::exact ? "exact" : "random", scalars.alpha, scalars.beta);
    return text;
}

// What was written around C or between its lines, or "".
std::string writes_outside(const Check& check, const Storage& before, Storage after)
{
    const Shape& s = check.shape;
    for (int row = 0; row < rows_of_all(s); ++row) {
        const std::size_t start = BAND + at_c(s, row / s.M, row % s.M, 0);
        std::copy_n(&before.elements[start], s.N, &after.elements[start]);
    }
    for (std::size_t i = 0; i < after.elements.size(); ++i) {  // by bits: NaN is no less equal to itself
        if (std::memcmp(&after.elements[i], &before.elements[i], sizeof(${ T })) == 0) continue;
        return "wrote outside C, " + std::to_string((long long)i - (long long)BAND) + " elements from its start";
    }
    return "";
}

// The first wrong element of `rows`, or "".
std::string wrong_element(const Check& check, const Operands& x, const Storage& c, const std::vector<int>& rows)
{
    for (int row : rows) {
        const int p = row / check.shape.M, m = row % check.shape.M;
        const std::vector<Expected> expected = reference_row(check, x, p, m);
        for (int n = 0; n < check.shape.N; ++n) {
            const double got = c[at_c(check.shape, p, m, n)], wanted = double(expected[n].value);
            const double error = double(std::fabs(got - expected[n].value));
            if (error <= expected[n].bound) continue;  // NaN is not
            char text[200];
            std::snprintf(text, sizeof text, "${ "product %d: " if out.batched }C[%d][%d] = %.${ out.digits }g, expected %.${ out.digits }g, error %.3g above %.3g",${ " p," if out.batched } m, n, got,
                          wanted, error, expected[n].bound);
            return text;
        }
    }
    return "";
}

bool passes(const Check& check)
{
    const Shape& s = check.shape;
    const Operands x = make_operands(check);
    const DeviceCopy a(x.a), b(x.b), c(x.c);
//% if out.extra
    const DeviceCopy
//%- for name in out.extra
 ${ name }(x.${ name })${ "," if not loop.last }
//%- endfor
;
    const Extra extra = {${ out.extra | join(".matrix(), ") }.matrix()};
//% endif
//% if out.pointers
    const DevicePointers to_a(a, s.batch, [&](int p) { return at_a(s, p, 0, 0); });
    const DevicePointers to_b(b, s.batch, [&](int p) { return at_b(s, p, 0, 0); });
    const DevicePointers to_c(c, s.batch, [&](int p) { return at_c(s, p, 0, 0); });
    must(describe(check).c_str(), launch(s, to_a.array(), to_b.array(), to_c.array(), ${ "extra, " if out.extra }check.scalars));
//% else
    must(describe(check).c_str(), launch(s, a.matrix(), b.matrix(), c.matrix(), ${ "extra, " if out.extra }check.scalars));
//% endif
    must(describe(check).c_str(), cudaDeviceSynchronize());
    const Storage result = c.read(x.c);

    std::vector<int> rows = rows_to_check(s);
    const bool sampled = int(rows.size()) < rows_of_all(s);
    std::string scope = sampled ? std::to_string(rows.size()) + " of " + std::to_string(rows_of_all(s)) + " rows" : "every element";
//% if not out.reference
    if (sampled && check.data == Data::exact) {
        scope += " in full, all rows by their weighted sums";
        const int off = first_row_off(check, x, result);
        if (off < rows_of_all(s)) rows.push_back(off);
    }
//% endif
    std::sort(rows.begin(), rows.end());
    std::string problem = wrong_element(check, x, result, rows);
    if (problem.empty()) problem = writes_outside(check, x.c, result);
    std::printf("%s  %s: %s\n", problem.empty() ? "PASS" : "FAIL", describe(check).c_str(),
                problem.empty() ? scope.c_str() : problem.c_str());
    return problem.empty();
}

// The launcher's answer to arguments that it must refuse, or that need no launch: no memory is touched.
bool answers(const char* what, const Shape& s, std::uintptr_t a, std::uintptr_t b, std::uintptr_t c, cudaError_t wanted${ ", std::uintptr_t operand = 4096" if out.extra })
{
//% if out.extra
    const auto* const other = reinterpret_cast<const ${ T }*>(operand);
//% endif
    const cudaError_t status = launch(s, reinterpret_cast<${ to_const }>(a), reinterpret_cast<${ to_const }>(b),
                                      reinterpret_cast<${ to }>(c), ${ "{%s}, " | format((["other"] * (out.extra | length)) | join(", ")) if out.extra }{1, 0});
    std::printf("%s  %s: %s\n", status == wanted ? "PASS" : "FAIL", what, cudaGetErrorName(status));
    return status == wanted;
}

bool checks_its_arguments()
{
    constexpr std::uintptr_t somewhere = 4096, misaligned = somewhere + ${ out.operand_align // 2 };
    const Shape good = SHAPES[0];
    bool passed = answers("A misaligned", good, misaligned, somewhere, somewhere, cudaErrorMisalignedAddress);
    passed &= answers("B misaligned", good, somewhere, misaligned, somewhere, cudaErrorMisalignedAddress);
    passed &= answers("C misaligned", good, somewhere, somewhere, misaligned, cudaErrorMisalignedAddress);
//% if out.extra
    passed &= answers("${ out.extra | join(", ") } misaligned", good, somewhere, somewhere, somewhere, cudaErrorMisalignedAddress, somewhere + ${ out.pointer_align // 2 });
    passed &= answers("${ out.extra | join(", ") } null", good, somewhere, somewhere, somewhere, cudaErrorInvalidValue, 0);
//% endif
    passed &= answers("C null", good, somewhere, somewhere, 0, cudaErrorInvalidValue);
//% if out.runtime_names
    Shape bad = good;
//% endif
//% for size in out.runtime_sizes
    bad = good, bad.${ size } = -1;
    passed &= answers("${ size } = -1", bad, somewhere, somewhere, somewhere, cudaErrorInvalidValue);
//% endfor
//% for size in out.may_be_empty
    bad = good, bad.${ size } = 0;
    passed &= answers("${ size } = 0", bad, 0, 0, 0, cudaSuccess);
//% endfor
//% for ld in out.runtime_lds
    bad = good, bad.${ ld.name } = ${ "good." ~ ld.line if ld.line in out.runtime_sizes else ld.line } - 1;
    passed &= answers("${ ld.name } shorter than a line", bad, somewhere, somewhere, somewhere, cudaErrorInvalidValue);
//% if out.ld_align > 1
    bad = good, bad.${ ld.name } += 1;
    passed &= answers("${ ld.name } no multiple of ${ out.ld_align }", bad, somewhere, somewhere, somewhere, cudaErrorInvalidValue);
//% endif
//% endfor
//% for stride in out.runtime_strides if not stride.may_be_zero
    bad = good, bad.${ stride.name } = 0;
    passed &= answers("${ stride.name } = 0", bad, somewhere, somewhere, somewhere, cudaErrorInvalidValue);
//% endfor
    return passed;
}

}  // namespace

int main()
{
    bool passed = checks_its_arguments();
    for (const Shape& shape : SHAPES)
        for (Data data : {Data::exact, Data::random})
            for (Scalars scalars : SCALARS) passed &= passes({shape, data, scalars});
    std::puts(passed ? "PASS  all" : "FAIL");
    return passed ? 0 : 1;
}
