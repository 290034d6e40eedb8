// Checks gemm on this machine's GPU. Needs CUDA's runtime and nothing else.
//
//   exact   small integers: every product and sum is representable, so C is their sum, rounded once
//   random  uniform in [-1, 1), and any integers, against double arithmetic, with a bound for each element's error
//
// NaN, in integers -1, fills C before a run with beta = 0, the padding between lines and bands around all operands: what
// reads or writes there fails. Exits with 0 if all checks pass, with 77 where there is no GPU.

#include "gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

// In elements.
struct Shape {
    int M, N, K, lda, ldb, ldc, ld_residual, batch;
    long long stride_a, stride_b, stride_c, stride_residual;
};

constexpr Shape SHAPES[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 1, 1, 4, 4, 4, 4, 1, 0, 0, 0, 0},
    {32, 32, 64, 64, 32, 32, 32, 1, 0, 0, 0, 0},
    {32, 32, 64, 67, 35, 35, 35, 1, 0, 0, 0, 0},
    {17, 31, 37, 37, 31, 31, 31, 1, 0, 0, 0, 0},
    {17, 31, 37, 40, 34, 34, 34, 1, 0, 0, 0, 0},
    {3, 21, 257, 257, 21, 21, 21, 1, 0, 0, 0, 0},
    {3, 21, 257, 260, 24, 24, 24, 1, 0, 0, 0, 0},
    {146, 3, 5, 5, 3, 3, 3, 1, 0, 0, 0, 0},
    {146, 3, 5, 8, 6, 6, 6, 1, 0, 0, 0, 0},
    {16, 16, 0, 1, 16, 16, 16, 1, 0, 0, 0, 0},
    {16, 16, 0, 4, 19, 19, 19, 1, 0, 0, 0, 0},
};

struct Scalars {
    float alpha, beta;
};

constexpr Scalars SCALARS[] = {{1, 0}, {3, -2}};

enum class Data { exact, random };

struct Check {
    Shape shape;
    Data data;
    Scalars scalars;
};


// Where an element lies: how far apart products, rows and columns are.
struct Place {
    long long product, row, column;

    std::size_t operator()(int p, int m, int n) const { return p * product + m * row + n * column; }
};

// The number that an element is.
double decode(uint8_t x) { return x; }
double decode(int8_t x) { return x; }
double decode(__nv_bfloat16 x) { return __bfloat162float(x); }
double decode(float x) { return x; }
double decode(int32_t x) { return x; }

// The element nearest to a number, ties to even.
template <typename Element>
Element encode(double value);
template <>
uint8_t encode(double value) { return uint8_t(std::nearbyint(std::clamp(value, 0.0, 255.0))); }
template <>
int8_t encode(double value) { return int8_t(std::nearbyint(std::clamp(value, -128.0, 127.0))); }
template <>
__nv_bfloat16 encode(double value) { return __double2bfloat16(value); }
template <>
float encode(double value) { return float(value); }
template <>
int32_t encode(double value) { return int32_t(value); }

// The same numbers on every machine: the library's own distributions differ.
struct Random {
    std::mt19937_64 bits;

    int below(int end) { return int((bits() >> 32) * std::uint64_t(end) >> 32); }
    int integer(int reach) { return below(2 * reach + 1) - reach; }
    double uniform() { return double(std::int64_t(bits() >> 40) - (1LL << 23)) / (1LL << 23); }
};

void must(const char* what, cudaError_t status)
{
    if (status == cudaSuccess) return;
    std::printf("FAIL  %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

// Matrices of rows x cols as they lie in memory: band, lines with padding between them, band.
template <typename Element>
struct Storage {
    // Of a band; leaves addresses the promised alignment, no more.
    static constexpr std::size_t BAND = 1024 + std::max<std::size_t>(16, sizeof(Element)) / sizeof(Element);

    Place at;
    std::vector<Element> elements;
    std::shared_ptr<void> device;

    template <typename Value>
    Storage(int batch, int rows, int cols, Place at, Value value)
        : at(at), elements(2 * BAND + (rows > 0 && cols > 0 ? at(batch - 1, rows - 1, cols - 1) + 1 : 0))
    {
        std::memset(static_cast<void*>(elements.data()), 0xff, bytes());  // 0xff: NaN, of integers -1
        for (int p = 0; p < batch; ++p)
            for (int row = 0; row < rows; ++row)
                for (int col = 0; col < cols; ++col) elements[BAND + at(p, row, col)] = encode<Element>(value());
    }

    Element operator()(int p, int row, int col) const { return elements[BAND + at(p, row, col)]; }
    std::size_t bytes() const { return elements.size() * sizeof(Element); }

    // Where the first element of a copy on the device is.
    Element* to_device()
    {
        void* memory = nullptr;
        must("cudaMalloc", cudaMalloc(&memory, bytes()));
        device.reset(memory, cudaFree);
        must("copy to the device", cudaMemcpy(memory, elements.data(), bytes(), cudaMemcpyHostToDevice));
        return static_cast<Element*>(memory) + BAND;
    }

    // What that copy holds now.
    Storage from_device() const
    {
        Storage now = *this;
        must("copy from the device", cudaMemcpy(now.elements.data(), device.get(), bytes(), cudaMemcpyDeviceToHost));
        return now;
    }
};

// A pointer of whatever type the launcher takes.
struct Address {
    std::uintptr_t at;

    template <typename T>
    operator T*() const { return reinterpret_cast<T*>(at); }
};

using Pointers = std::array<Address, 7>;  // A, B, C, scale_n, zero_a, residual, aux

cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars)
{
    [[maybe_unused]] const auto& [M, N, K, lda, ldb, ldc, ld_residual, batch, stride_a, stride_b, stride_c, stride_residual] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [A, B, C, scale_n, zero_a, residual, aux] = tensors;
    constexpr void* workspace = nullptr;
    constexpr std::size_t workspace_bytes = 0;
    return gemm_launch(A, B, C, scale_n, zero_a, residual, aux, M, N, K, lda, ldb, ldc, ld_residual, alpha, beta, workspace, workspace_bytes, nullptr);
}

// What the tensors hold before a launch.
struct Operands {
    Storage<uint8_t> A;
    Storage<int8_t> B;
    Storage<__nv_bfloat16> C;
    Storage<float> scale_n;
    Storage<int32_t> zero_a;
    Storage<float> residual;
    Storage<float> aux;
};

constexpr double LARGEST_EXACT = 1LL << 24;  // below it sums of integers are exact, in whatever order

// Of exact data the largest integer of A and B: |alpha K reach^2| + |beta reach| stays below LARGEST_EXACT. For K beyond
// that a sum of random signs is near sqrt(K), far below it.
int reach_of(const Check& check)
{
    const double K = check.shape.K, scale = std::fabs(double(check.scalars.alpha));
    const double most = LARGEST_EXACT / (scale * std::max(1.0, K) + std::fabs(double(check.scalars.beta)));
    return int(std::min(8.0, std::max(1.0, std::sqrt(most))));
}

Operands make_operands(const Check& check)
{
    const Shape& s = check.shape;
    Random random = {std::mt19937_64(s.M * 3u + s.N * 5u + s.K * 7u)};
    const bool exact = check.data == Data::exact;
    const int reach = reach_of(check);
    const auto value = [&] { return exact ? random.integer(reach) : random.uniform(); };
    const auto value_s8 = [&] { return exact ? random.integer(reach) : random.below(256) - 128; };
    const auto value_u8 = [&] { return random.below(exact ? reach + 1 : 256); };
    const auto before = [&] { return check.scalars.beta == 0 ? NAN : value(); };
    const auto unwritten = [&] { return NAN; };
    const auto factor = [&] { return exact ? (1 << random.below(3)) / 2.0 : random.uniform(); };
    const auto zero_point = [&] { return random.integer(exact ? 8 : 255); };
    return {{s.batch, s.M, s.K, {s.stride_a, s.lda, 1}, value_u8},
            {s.batch, s.K, s.N, {s.stride_b, s.ldb, 1}, value_s8},
            {s.batch, s.M, s.N, {s.stride_c, s.ldc, 1}, before},
            {1, 1, s.N, {0, 0, 1}, factor},
            {1, 1, 1, {0, 0, 0}, zero_point},
            {s.batch, s.M, s.N, {s.stride_residual, s.ld_residual, 1}, value},
            {s.batch, s.M, s.N, {s.stride_c, s.ldc, 1}, unwritten}};
}

// A value, and what a kernel's may be off by.
struct Bounded {
    double value;
    double bound;
};

constexpr double UNIT_ROUNDOFF = 1.0 / (1LL << 24);  // of f32

// A result with what its operands' errors make of it, and its own rounding: none where the type holds an exact result.
[[maybe_unused]] Bounded rounded(double value, double inherited)
{
    const bool held = inherited == 0 && static_cast<float>(value) == value;
    const double own = UNIT_ROUNDOFF * (std::fabs(double(value)) + inherited) + std::numeric_limits<float>::denorm_min();
    return {value, held ? 0 : inherited + own};
}

[[maybe_unused]] Bounded operator+(Bounded a, Bounded b) { return rounded(a.value + b.value, a.bound + b.bound); }
[[maybe_unused]] Bounded operator-(Bounded a, Bounded b) { return rounded(a.value - b.value, a.bound + b.bound); }
[[maybe_unused]] Bounded operator*(Bounded a, Bounded b)
{
    const double x = std::fabs(double(a.value)), y = std::fabs(double(b.value));
    return rounded(a.value * b.value, x * b.bound + y * a.bound + a.bound * b.bound);
}

// An integer of 32 bits, which wraps around.
struct Integer {
    std::uint32_t bits;

    explicit Integer(std::uint32_t bits) : bits(bits) {}
    explicit Integer(int value) : bits(value) {}
    explicit Integer(double value) : bits(static_cast<std::uint32_t>(static_cast<std::int64_t>(value))) {}
    std::int32_t value() const { return static_cast<std::int32_t>(bits); }
    operator Bounded() const { return rounded(value(), 0); }
};

[[maybe_unused]] Integer operator+(Integer a, Integer b) { return Integer(a.bits + b.bits); }
[[maybe_unused]] Integer operator-(Integer a, Integer b) { return Integer(a.bits - b.bits); }
[[maybe_unused]] Integer operator*(Integer a, Integer b) { return Integer(a.bits * b.bits); }

// What a row of each output should hold.
struct Row {
    std::vector<Bounded> C;
    std::vector<Bounded> aux;
};

// The sums of the columns of B.
struct ColumnSums {
    std::vector<double> sum;
};

ColumnSums column_sums(const Operands& x, const Shape& s, int p)
{
    ColumnSums columns = {std::vector<double>(s.N)};
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double b = decode(x.B(p, k, n));
            columns.sum[n] += b;
        }
    return columns;
}

// Row m of product p, in double arithmetic, which holds sums of integers exactly until they wrap around.
Row reference_row(const Check& check, const Operands& x, const ColumnSums& columns, int p, int m)
{
    const Shape& s = check.shape;
    std::vector<double> row_of_a(s.K), sum(s.N);
    for (int k = 0; k < s.K; ++k) row_of_a[k] = decode(x.A(p, m, k));
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double product = row_of_a[k] * decode(x.B(p, k, n));
            sum[n] += product;
        }

    Row expected = {std::vector<Bounded>(s.N, Bounded{0, 0}), std::vector<Bounded>(s.N, Bounded{0, 0})};
    for (int n = 0; n < s.N; ++n) {
        const Integer acc(sum[n]);
        const Integer column_sum(columns.sum[n]);
        const Bounded alpha = {check.scalars.alpha, 0};
        const Bounded beta = {check.scalars.beta, 0};
        const double old = check.scalars.beta == 0 ? 0 : decode(x.C(p, m, n));
        const Bounded C = {old, 0};
        const Bounded scale_n = {decode(x.scale_n(p, m, n)), 0};
        const Integer zero_a(decode(x.zero_a(p, m, n)));
        const Bounded residual = {decode(x.residual(p, m, n)), 0};
        const auto aux = [&](Bounded x) { return expected.aux[n] = x; };
        expected.C[n] = aux(alpha * (acc - zero_a * column_sum) * scale_n + beta * C) + residual;
    }
    return expected;
}

int rows_of_all(const Shape& s) { return s.batch * s.M; }

std::string describe(const Check& check)
{
    const auto& [s, data, scalars] = check;
    char text[300];
    std::snprintf(text, sizeof text, "%dx%dx%d lda=%d ldb=%d ldc=%d %s alpha=%g beta=%g", s.M, s.N, s.K, s.lda, s.ldb,
                  s.ldc, data == Data::exact ? "exact" : "random", double(scalars.alpha), double(scalars.beta));
    return text;
}

// What was written around an output or between its lines of `length` elements, or "".
template <typename Element>
std::string writes_outside(const char* output, const Shape& s, int length, const Storage<Element>& before, Storage<Element> after)
{
    constexpr std::size_t BAND = Storage<Element>::BAND;
    for (int row = 0; row < rows_of_all(s); ++row) {
        const std::size_t start = BAND + before.at(row / s.M, row % s.M, 0);
        std::copy_n(&before.elements[start], length, &after.elements[start]);
    }
    for (std::size_t i = 0; i < after.elements.size(); ++i) {  // by bits: NaN is no less equal to itself
        if (std::memcmp(&after.elements[i], &before.elements[i], sizeof(Element)) == 0) continue;
        return "wrote outside " + std::string(output) + ", " + std::to_string((long long)i - (long long)BAND) + " elements from its start";
    }
    return "";
}

// The first wrong element of row m of product p of `output`, or "".
template <typename Element>
std::string wrong_in_row(const char* output, int p, int m, const Storage<Element>& results, const std::vector<Bounded>& expected)
{
    for (int n = 0; n < int(expected.size()); ++n) {
        const auto& wanted = expected[n];
        const double got = decode(results(p, m, n));
        const auto nearest = [](double value) { return double(decode(encode<Element>(value))); };  // to what is within the bound
        const double least = nearest(wanted.value - wanted.bound), most = nearest(wanted.value + wanted.bound);
        if (least <= got && got <= most) continue;  // NaN is not
        char text[200];
        std::snprintf(text, sizeof text, "%s[%d][%d] = %.9g, expected %.9g to %.9g", output, m, n,
                      got, least, most);
        return text;
    }
    return "";
}

bool passes(const Check& check)
{
    const Shape& s = check.shape;
    Operands x = make_operands(check);
    const auto address = [](const void* at) { return Address{reinterpret_cast<std::uintptr_t>(at)}; };
    const cudaError_t started = launch(s, {address(s.K == 0 ? nullptr : x.A.to_device()), address(s.K == 0 ? nullptr : x.B.to_device()), address(x.C.to_device()), address(x.scale_n.to_device()), address(x.zero_a.to_device()), address(x.residual.to_device()), address(x.aux.to_device())}, check.scalars);
    if (started != cudaSuccess) std::puts(gemm_refusal());
    must(describe(check).c_str(), started);
    must(describe(check).c_str(), cudaDeviceSynchronize());
    const Storage<__nv_bfloat16> new_C = x.C.from_device();
    const Storage<float> new_aux = x.aux.from_device();

    std::string problem;
    ColumnSums sums;  // of the row's product
    for (int row = 0; row < rows_of_all(s) && problem.empty(); ++row) {
        if (row % s.M == 0) sums = column_sums(x, s, row / s.M);
        const Row expected = reference_row(check, x, sums, row / s.M, row % s.M);
        problem = wrong_in_row("C", row / s.M, row % s.M, new_C, expected.C);
        if (problem.empty()) problem = wrong_in_row("aux", row / s.M, row % s.M, new_aux, expected.aux);
    }
    if (problem.empty()) problem = writes_outside("C", s, s.N, x.C, new_C);
    if (problem.empty()) problem = writes_outside("aux", s, s.N, x.aux, new_aux);
    std::printf("%s  %s: %s\n", problem.empty() ? "PASS" : "FAIL", describe(check).c_str(),
                problem.empty() ? "every element" : problem.c_str());
    return problem.empty();
}

// The launcher's answer to arguments that it must refuse, or that need no launch: no memory is touched.
bool answers(const std::string& what, const Shape& s, const Pointers& tensors, cudaError_t wanted)
{
    const cudaError_t status = launch(s, tensors, {1, 0});
    std::printf("%s  %s: %s\n", status == wanted ? "PASS" : "FAIL", what.c_str(), cudaGetErrorName(status));
    return status == wanted;
}

bool checks_its_arguments()
{
    const Shape good = SHAPES[0];
    const std::pair<std::string, unsigned> aligned[] = {{"A", 16}, {"B", 16}, {"C", 16}, {"scale_n", 16}, {"zero_a", 16}, {"residual", 16}, {"aux", 16}};
    Pointers tensors;
    tensors.fill({4096});  // which nothing is read from
    bool passed = true;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, align] = aligned[i];
        Pointers odd = tensors;
        odd[i] = {0};
        passed &= answers(name + " null", good, odd, cudaErrorInvalidValue);
        odd[i] = {4096 + align / 2};
        if (align > 1) passed &= answers(name + " misaligned", good, odd, cudaErrorMisalignedAddress);
    }
    const auto with = [&](auto Shape::*field, long long value) {
        Shape bad = good;
        bad.*field = value;
        return bad;
    };
    passed &= answers("M = -1", with(&Shape::M, -1), tensors, cudaErrorInvalidValue);
    passed &= answers("N = -1", with(&Shape::N, -1), tensors, cudaErrorInvalidValue);
    passed &= answers("K = -1", with(&Shape::K, -1), tensors, cudaErrorInvalidValue);
    passed &= answers("M = 0", with(&Shape::M, 0), {}, cudaSuccess);
    passed &= answers("N = 0", with(&Shape::N, 0), {}, cudaSuccess);
    passed &= answers("lda shorter than a line", with(&Shape::lda, good.K - 1), tensors, cudaErrorInvalidValue);
    passed &= answers("ldb shorter than a line", with(&Shape::ldb, good.N - 1), tensors, cudaErrorInvalidValue);
    passed &= answers("ldc shorter than a line", with(&Shape::ldc, good.N - 1), tensors, cudaErrorInvalidValue);
    passed &= answers("ld_residual shorter than a line", with(&Shape::ld_residual, good.N - 1), tensors, cudaErrorInvalidValue);
    return passed;
}

}  // namespace

int main()
{
    bool passed = checks_its_arguments();
    int devices = 0;
    if (passed && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
        std::puts("no GPU: skipped");
        return 77;  // as CTest is told
    }
    for (const Shape& shape : SHAPES)
        for (Data data : {Data::exact, Data::random})
            for (Scalars scalars : SCALARS) {
                passed &= passes({shape, data, scalars});
            }
    std::puts(passed ? "PASS  all" : "FAIL");
    return passed ? 0 : 1;
}
