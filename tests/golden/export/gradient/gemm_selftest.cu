// Checks the kernel on this machine's GPU.
//
//   exact   small integers: every product and sum is representable, so C must match bit for bit
//   random  uniform in [-1, 1) against double arithmetic, with a bound for each element's error
//
// NaN fills C before a run with beta = 0, the padding between lines and the bands around all
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
    int M, N, K, lda, ldb, ldc;
    int reach;  // the largest integer in exact A and B: no sum is rounded, in whatever order
};

constexpr Shape SHAPES[] = {
    {24, 96, 1, 24, 16, 96, 8},
    {24, 96, 64, 24, 16, 96, 8},
    {24, 96, 37, 24, 16, 96, 8},
    {24, 96, 257, 24, 16, 96, 8},
    {24, 96, 5, 24, 16, 96, 8},
    {24, 96, 0, 24, 16, 96, 8},
    {24, 96, 45, 24, 16, 96, 8},
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
double decode(__nv_bfloat16 x) { return __bfloat162float(x); }
double decode(float x) { return x; }

// The element nearest to a number, ties to even.
template <typename Element>
Element encode(double value);
template <>
__nv_bfloat16 encode(double value) { return __double2bfloat16(value); }
template <>
float encode(double value) { return float(value); }

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

using Pointers = std::array<Address, 3>;  // A, B, C

cudaError_t launch(const Check& s, const Pointers& tensors)
{
    const auto& [A, B, C] = tensors;
    EXPORTED(plan) plan;
    cudaError_t status = EXPORTED(launch)(A, B, C, s.K, s.alpha, s.beta, nullptr, 0, nullptr);
    if (status != cudaSuccess || s.beta != 0) return status;
    status = EXPORTED(make_plan)(&plan, A, B, C, s.K, s.alpha, s.beta, nullptr, 0);
    return status == cudaSuccess ? EXPORTED(run_prepared)(&plan, nullptr) : status;  // C is not read: it is the same again
}

// What the tensors hold before a launch.
struct Operands {
    Storage<__nv_bfloat16> A, B;
    Storage<float> C;
};

Operands make_operands(const Check& s)
{
    Random random = {std::mt19937_64(s.M * 3u + s.N * 5u + s.K * 7u)};
    const bool exact = s.exact;
    const auto value = [&] { return exact ? random.integer(s.reach) : random.uniform(); };
    const auto before = [&] { return s.beta == 0 ? NAN : value(); };
    return {{s.M, s.K, {1, s.lda}, value},
            {(s.K + 39) / 40 * 72, 16, {s.ldb, 1}, value},
            {s.M, s.N, {s.ldc, 1}, before}};
}

// A value, and how far a kernel's may be off.
struct Bounded {
    double value, bound;
};

constexpr double UNIT_ROUNDOFF = 1.0 / (1LL << 24);  // of f32

// alpha * acc + beta * C: both products and their sum are rounded, unless the data are exact.
Bounded linear(const Check& s, Bounded acc, double C)
{
    const double scaled = s.alpha * acc.value, added = s.beta * C;
    const double off = std::fabs(double(s.alpha)) * acc.bound;
    const double own = UNIT_ROUNDOFF * double(std::fabs(scaled) + std::fabs(added) + std::fabs(scaled + added) + 2 * off);
    const double least = 3 * std::numeric_limits<float>::denorm_min();
    return {scaled + added, s.exact ? 0 : off + own * (1 + 4 * UNIT_ROUNDOFF) + least};
}

constexpr double LAMBDA = 6.0;  // standard deviations that the error of a sum may reach

// The image's element that element n of a filter multiplies for output pixel k; 0 in the padding.
double pixel(const Operands& x, int k, int n)
{
    const int place = k % 40, tap = n / 16;
    const int row = place / 8 * 2 - 1 + tap / 2 * 1;
    const int column = place % 8 * 1 - 0 + tap % 2 * 1;
    if (row < 0 || row >= 9 || column < 0 || column >= 8) return 0;
    return decode(x.B((k / 40 * 9 + row) * 8 + column, n % 16));
}

// Row m, in double arithmetic.
vector<Bounded> reference_row(const Check& s, const Operands& x, int m)
{
    vector<double> row_of_a(s.K), sum(s.N), magnitude(s.N);
    for (int k = 0; k < s.K; ++k) row_of_a[k] = decode(x.A(m, k));
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double product = row_of_a[k] * pixel(x, k, n);
            sum[n] += product;
            magnitude[n] += std::fabs(product);
        }

    // Rounding errors of K products add up like a random walk (Higham and Mary, 2019).
    const double random_walk = s.exact ? 0 : LAMBDA * std::sqrt(s.K) * UNIT_ROUNDOFF;
    // Tensor cores truncate terms and sums where CUDA cores round them, and may be off by more.
    const double steps = std::ceil(double(s.K) / 8);
    const auto cut_off = [&](int n) -> double {
        if (s.exact) return 0;
        return steps * 2.384185791015625e-07 * std::fabs(sum[n]);
    };
    vector<Bounded> expected(s.N);
    for (int n = 0; n < s.N; ++n) {
        const Bounded acc = {sum[n], random_walk * magnitude[n] + cut_off(n)};
        expected[n] = linear(s, acc, s.beta == 0 ? 0 : decode(x.C(m, n)));
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
    const auto started = launch(s, {s.K == 0 ? nullptr : x.A.first(), s.K == 0 ? nullptr : x.B.first(), x.C.first()});
    must(what + ". " + EXPORTED(refusal)(), started);
    must(what, cudaDeviceSynchronize());
    const auto new_C = x.C.from_device();

    string problem;
    const auto check = [&](int row) {
        const auto expected = reference_row(s, x, row);
        if (problem.empty()) problem = wrong_in_row("C", row, new_C, expected);
    };
    for (int row = 0; row < s.M && problem.empty(); ++row) check(row);
    if (problem.empty()) problem = writes_outside("C", s, s.N, x.C, new_C);
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
    const std::pair<string, unsigned> aligned[] = {{"A", 16}, {"B", 16}, {"C", 16}};
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
    answers("K = -1", cudaErrorInvalidValue, with(&Shape::K, -1), tensors);
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
