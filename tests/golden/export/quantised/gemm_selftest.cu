// Checks the kernel on this machine's GPU.
//
//   exact   small integers: every product and sum is representable, so C is their sum, rounded once
//   random  uniform in [-1, 1), and any integers, against double arithmetic, with a bound for each element's error
//
// NaN, in integers -1, fills C before a run with beta = 0, the padding between lines and the bands around all
// operands: a kernel that reads or writes there fails. Exits with 0 if all checks pass, with 77 where there is no GPU.

#include "gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
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

#define EXPORTED(function) gemm_##function

namespace {

using std::string, std::vector;

struct Shape {  // in elements
    int M, N, K, lda, ldb, ldc, ld_residual;
    int reach;  // the largest integer in exact A and B: no sum is rounded, in whatever order
};

constexpr Shape SHAPES[] = {
    {1, 1, 1, 1, 1, 1, 1, 8},
    {1, 1, 1, 4, 4, 4, 4, 8},
    {32, 32, 64, 64, 32, 32, 32, 8},
    {32, 32, 64, 67, 35, 35, 35, 8},
    {17, 31, 37, 37, 31, 31, 31, 8},
    {17, 31, 37, 40, 34, 34, 34, 8},
    {3, 21, 257, 257, 21, 21, 21, 8},
    {3, 21, 257, 260, 24, 24, 24, 8},
    {146, 3, 5, 5, 3, 3, 3, 8},
    {146, 3, 5, 8, 6, 6, 6, 8},
    {16, 16, 0, 1, 16, 16, 16, 8},
    {16, 16, 0, 4, 19, 19, 19, 8},
};

constexpr float SCALARS[][2] = {{1, 0}, {3, -2}};  // alpha, beta

struct Check : Shape {
    bool exact;  // integers, else random
    float alpha, beta;
};

// An element's offset, by the distances between rows and columns.
struct Place {
    long long row, column;

    size_t operator()(int m, int n) const { return m * row + n * column; }
};

// The number that an element stands for.
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

// The same numbers on every machine: distributions of standard libraries differ.
struct Random {
    std::mt19937_64 bits;

    int below(int end) { return int((bits() >> 32) * std::uint64_t(end) >> 32); }
    int integer(int reach) { return below(2 * reach + 1) - reach; }
    double uniform() { return double(std::int64_t(bits() >> 40) - (1LL << 23)) / (1LL << 23); }
};

template <typename... Values>
string text(const char* format, Values... values)
{
    char line[300];
    std::snprintf(line, sizeof line, format, values...);
    return line;
}

bool report(bool passed, const string& what, const string& result)
{
    std::printf("%s  %s: %s\n", passed ? "PASS" : "FAIL", what.c_str(), result.c_str());
    return passed;
}

void must(const string& what, cudaError_t status)
{
    if (status != cudaSuccess) std::exit(!report(false, what, cudaGetErrorString(status)));
}

// A copy in device memory.
std::shared_ptr<void> on_device(const void* data, size_t bytes)
{
    void* memory = nullptr;
    must("cudaMalloc", cudaMalloc(&memory, bytes));
    must("copy to the device", cudaMemcpy(memory, data, bytes, cudaMemcpyHostToDevice));
    return {memory, cudaFree};
}

// Matrices of rows x cols in memory: a band, lines with padding between them, a band.
template <typename Element>
struct Storage {
    // Elements of a band, behind which addresses have the promised alignment, no more.
    static constexpr size_t BAND = 1024 + std::max<size_t>(16, sizeof(Element)) / sizeof(Element);

    Place at;
    vector<Element> elements;
    std::shared_ptr<void> device;

    template <typename Value>
    Storage(int rows, int cols, Place at, Value value)
        : at(at), elements(2 * BAND + (rows > 0 && cols > 0 ? at(rows - 1, cols - 1) + 1 : 0))
    {
        std::memset(static_cast<void*>(elements.data()), 0xff, bytes());  // 0xff: NaN, or the integer -1
        for (int row = 0; row < rows; ++row)
            for (int col = 0; col < cols; ++col) elements[BAND + at(row, col)] = encode<Element>(value());
        device = on_device(elements.data(), bytes());
    }

    Element operator()(int row, int col) const { return elements[BAND + at(row, col)]; }
    size_t bytes() const { return elements.size() * sizeof(Element); }
    Element* first() const { return static_cast<Element*>(device.get()) + BAND; }  // on the device

    // What the device holds now.
    Storage from_device() const
    {
        Storage now = *this;
        must("copy from the device", cudaMemcpy(now.elements.data(), device.get(), bytes(), cudaMemcpyDeviceToHost));
        return now;
    }
};

// A pointer of whatever type the launcher takes.
struct Address {
    const void* at;

    template <typename T>
    operator T*() const { return static_cast<T*>(const_cast<void*>(at)); }
};

using Pointers = std::array<Address, 7>;  // A, B, C, scale_n, zero_a, residual, aux

cudaError_t launch(const Check& s, const Pointers& tensors)
{
    const auto& [A, B, C, scale_n, zero_a, residual, aux] = tensors;
    return EXPORTED(launch)(A, B, C, scale_n, zero_a, residual, aux, s.M, s.N, s.K, s.lda, s.ldb, s.ldc, s.ld_residual, s.alpha, s.beta, nullptr, 0, nullptr);
}

// What the tensors hold before a launch.
struct Operands {
    Storage<uint8_t> A;
    Storage<int8_t> B;
    Storage<__nv_bfloat16> C;
    Storage<float> scale_n;
    Storage<int32_t> zero_a;
    Storage<float> residual, aux;
};

Operands make_operands(const Check& s)
{
    Random random = {std::mt19937_64(s.M * 3u + s.N * 5u + s.K * 7u)};
    const bool exact = s.exact;
    const auto value = [&] { return exact ? random.integer(s.reach) : random.uniform(); };
    const auto value_s8 = [&] { return exact ? random.integer(s.reach) : random.below(256) - 128; };
    const auto value_u8 = [&] { return random.below(exact ? s.reach + 1 : 256); };
    const auto before = [&] { return s.beta == 0 ? NAN : value(); };
    const auto unwritten = [&] { return NAN; };
    const auto factor = [&] { return exact ? (1 << random.below(3)) / 2.0 : random.uniform(); };
    const auto zero_point = [&] { return random.integer(exact ? 8 : 255); };
    return {{s.M, s.K, {s.lda, 1}, value_u8},
            {s.K, s.N, {s.ldb, 1}, value_s8},
            {s.M, s.N, {s.ldc, 1}, before},
            {1, s.N, {0, 1}, factor},
            {1, 1, {0, 0}, zero_point},
            {s.M, s.N, {s.ld_residual, 1}, value},
            {s.M, s.N, {s.ldc, 1}, unwritten}};
}

// A value, and how far a kernel's may be off.
struct Bounded {
    double value, bound;
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
    vector<Bounded> C, aux;
};

// The sums of the columns of B.
struct ColumnSums {
    vector<double> sum;
};

ColumnSums column_sums(const Operands& x, const Check& s)
{
    ColumnSums columns = {vector<double>(s.N)};
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double b = decode(x.B(k, n));
            columns.sum[n] += b;
        }
    return columns;
}

// Row m, in double arithmetic, which holds sums of integers exactly until they wrap around.
Row reference_row(const Check& s, const Operands& x, const ColumnSums& columns, int m)
{
    vector<double> row_of_a(s.K), sum(s.N);
    for (int k = 0; k < s.K; ++k) row_of_a[k] = decode(x.A(m, k));
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double product = row_of_a[k] * decode(x.B(k, n));
            sum[n] += product;
        }

    Row expected = {vector<Bounded>(s.N, Bounded{0, 0}), vector<Bounded>(s.N, Bounded{0, 0})};
    for (int n = 0; n < s.N; ++n) {
        const Integer acc(sum[n]);
        const Integer column_sum(columns.sum[n]);
        const Bounded alpha = {s.alpha, 0};
        const Bounded beta = {s.beta, 0};
        const double old = s.beta == 0 ? 0 : decode(x.C(m, n));
        const Bounded C = {old, 0};
        const Bounded scale_n = {decode(x.scale_n(m, n)), 0};
        const Integer zero_a(decode(x.zero_a(m, n)));
        const Bounded residual = {decode(x.residual(m, n)), 0};
        const auto aux = [&](Bounded x) { return expected.aux[n] = x; };
        expected.C[n] = aux(alpha * (acc - zero_a * column_sum) * scale_n + beta * C) + residual;
    }
    return expected;
}

string describe(const Check& s)
{
    return text("%dx%dx%d lda=%d ldb=%d ldc=%d %s alpha=%g beta=%g", s.M, s.N, s.K, s.lda, s.ldb,
        s.ldc, s.exact ? "exact" : "random", double(s.alpha), double(s.beta));
}

// Writes around an output or between its lines of `length` elements, in words; "" if none.
template <typename Element>
string writes_outside(const char* output, const Check& s, int length, const Storage<Element>& before, Storage<Element> after)
{
    for (int row = 0; row < s.M; ++row) {
        const size_t start = before.BAND + before.at(row, 0);
        std::copy_n(&before.elements[start], length, &after.elements[start]);
    }
    for (size_t i = 0; i < after.elements.size(); ++i)  // by bits, as NaN != NaN
        if (std::memcmp(&after.elements[i], &before.elements[i], sizeof(Element)) != 0)
            return text("wrote outside %s, %lld elements from its start", output, (long long)(i - before.BAND));
    return "";
}

// The first wrong element of row m of `output`; "" if none is.
template <typename Element>
string wrong_in_row(const char* output, int m, const Storage<Element>& results, const vector<Bounded>& expected)
{
    const auto nearest = [](double value) { return double(decode(encode<Element>(value))); };  // as C holds it
    for (int n = 0; n < int(expected.size()); ++n) {
        const double got = decode(results(m, n));
        const auto [value, bound] = expected[n];
        const double least = nearest(value - bound), most = nearest(value + bound);
        if (!(least <= got && got <= most))  // false for NaN
            return text("%s[%d][%d] = %.9g, expected %.9g to %.9g", output, m, n, got, least, most);
    }
    return "";
}

bool passes(const Check& s)
{
    const Operands x = make_operands(s);
    const string what = describe(s);
    const auto started = launch(s, {s.K == 0 ? nullptr : x.A.first(), s.K == 0 ? nullptr : x.B.first(), x.C.first(), x.scale_n.first(), x.zero_a.first(), x.residual.first(), x.aux.first()});
    must(what + ". " + EXPORTED(refusal)(), started);
    must(what, cudaDeviceSynchronize());
    const auto new_C = x.C.from_device();
    const auto new_aux = x.aux.from_device();

    string problem;
    ColumnSums sums;
    const auto check = [&](int row) {
        const auto expected = reference_row(s, x, sums, row);
        if (problem.empty()) problem = wrong_in_row("C", row, new_C, expected.C);
        if (problem.empty()) problem = wrong_in_row("aux", row, new_aux, expected.aux);
    };
    sums = column_sums(x, s);
    for (int row = 0; row < s.M && problem.empty(); ++row) check(row);
    if (problem.empty()) problem = writes_outside("C", s, s.N, x.C, new_C);
    if (problem.empty()) problem = writes_outside("aux", s, s.N, x.aux, new_aux);
    return report(problem.empty(), what, problem.empty() ? "every element" : problem);
}

const char* const SOMEWHERE = reinterpret_cast<const char*>(4096);  // an address that nothing is read from

bool checks_its_arguments()
{
    bool passed = true;
    const auto answers = [&](const string& what, cudaError_t wanted, const Shape& s, const Pointers& tensors) {
        const cudaError_t status = launch({s, true, 1, 0}, tensors);
        passed &= report(status == wanted, what, cudaGetErrorName(status));
    };
    const Shape good = SHAPES[0];
    const std::pair<string, unsigned> aligned[] = {{"A", 16}, {"B", 16}, {"C", 16}, {"scale_n", 16}, {"zero_a", 16}, {"residual", 16}, {"aux", 16}};
    Pointers tensors;
    tensors.fill({SOMEWHERE});
    for (size_t i = 0; i < tensors.size(); ++i) {
        const auto& [name, align] = aligned[i];
        Pointers odd = tensors;
        odd[i] = {nullptr};
        answers(name + " null", cudaErrorInvalidValue, good, odd);
        odd[i] = {SOMEWHERE + align / 2};
        if (align > 1) answers(name + " misaligned", cudaErrorMisalignedAddress, good, odd);
    }
    const auto with = [&](auto Shape::*field, long long value) {
        Shape bad = good;
        bad.*field = value;
        return bad;
    };
    answers("M = -1", cudaErrorInvalidValue, with(&Shape::M, -1), tensors);
    answers("N = -1", cudaErrorInvalidValue, with(&Shape::N, -1), tensors);
    answers("K = -1", cudaErrorInvalidValue, with(&Shape::K, -1), tensors);
    answers("M = 0", cudaSuccess, with(&Shape::M, 0), {});
    answers("N = 0", cudaSuccess, with(&Shape::N, 0), {});
    answers("lda shorter than a line", cudaErrorInvalidValue, with(&Shape::lda, good.K - 1), tensors);
    answers("ldb shorter than a line", cudaErrorInvalidValue, with(&Shape::ldb, good.N - 1), tensors);
    answers("ldc shorter than a line", cudaErrorInvalidValue, with(&Shape::ldc, good.N - 1), tensors);
    answers("ld_residual shorter than a line", cudaErrorInvalidValue, with(&Shape::ld_residual, good.N - 1), tensors);
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
        for (const bool exact : {true, false})
            for (const auto& [alpha, beta] : SCALARS) passed &= passes({shape, exact, alpha, beta});
    std::puts(passed ? "PASS  all" : "FAIL");
    return passed ? 0 : 1;
}
