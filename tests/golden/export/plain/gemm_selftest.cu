// Checks gemm on this machine's GPU. Needs CUDA's runtime and nothing else.
//
//   exact   small integers: every product and sum is representable, so C must match bit for bit
//   random  uniform in [-1, 1) against double arithmetic, with a bound for each element's error
//
// NaN fills C before a run with beta = 0, the padding between lines and bands around all operands: what
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
    int M, N, K, lda, ldb, ldc, batch;
    long long stride_a, stride_b, stride_c;
};

constexpr Shape SHAPES[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 0},
    {1, 1, 1, 4, 4, 4, 1, 0, 0, 0},
    {32, 32, 64, 64, 32, 32, 1, 0, 0, 0},
    {32, 32, 64, 67, 35, 35, 1, 0, 0, 0},
    {17, 31, 37, 37, 31, 31, 1, 0, 0, 0},
    {17, 31, 37, 40, 34, 34, 1, 0, 0, 0},
    {3, 21, 257, 257, 21, 21, 1, 0, 0, 0},
    {3, 21, 257, 260, 24, 24, 1, 0, 0, 0},
    {146, 3, 5, 5, 3, 3, 1, 0, 0, 0},
    {146, 3, 5, 8, 6, 6, 1, 0, 0, 0},
    {16, 16, 0, 1, 16, 16, 1, 0, 0, 0},
    {16, 16, 0, 4, 19, 19, 1, 0, 0, 0},
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
double decode(float x) { return x; }

// The element nearest to a number, ties to even.
template <typename Element>
Element encode(double value);
template <>
float encode(double value) { return float(value); }

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

using Pointers = std::array<Address, 3>;  // A, B, C

cudaError_t launch(const Shape& s, const Pointers& tensors, Scalars scalars)
{
    [[maybe_unused]] const auto& [M, N, K, lda, ldb, ldc, batch, stride_a, stride_b, stride_c] = s;
    [[maybe_unused]] const auto& [alpha, beta] = scalars;
    const auto& [A, B, C] = tensors;
    constexpr void* workspace = nullptr;
    constexpr std::size_t workspace_bytes = 0;
    return gemm_launch(A, B, C, M, N, K, lda, ldb, ldc, alpha, beta, workspace, workspace_bytes, nullptr);
}

// What the tensors hold before a launch.
struct Operands {
    Storage<float> A;
    Storage<float> B;
    Storage<float> C;
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
    const auto before = [&] { return check.scalars.beta == 0 ? NAN : value(); };
    return {{s.batch, s.M, s.K, {s.stride_a, s.lda, 1}, value},
            {s.batch, s.K, s.N, {s.stride_b, s.ldb, 1}, value},
            {s.batch, s.M, s.N, {s.stride_c, s.ldc, 1}, before}};
}

// A value, and what a kernel's may be off by.
struct Bounded {
    double value;
    double bound;
};

constexpr double UNIT_ROUNDOFF = 1.0 / (1LL << 24);  // of f32
// alpha * acc + beta * C: both products and their sum are rounded, unless the data are exact.
Bounded linear(const Check& check, Bounded acc, double C)
{
    const double scaled = check.scalars.alpha * acc.value, added = check.scalars.beta * C;
    const double off = std::fabs(double(check.scalars.alpha)) * acc.bound;
    const double own = UNIT_ROUNDOFF * double(std::fabs(scaled) + std::fabs(added) + std::fabs(scaled + added) + 2 * off);
    const double least = 3 * std::numeric_limits<float>::denorm_min();
    return {scaled + added, check.data == Data::exact ? 0 : off + own * (1 + 4 * UNIT_ROUNDOFF) + least};
}

// What a row of each output should hold.
struct Row {
    std::vector<Bounded> C;
};

constexpr double LAMBDA = 6.0;  // standard deviations that the error of a sum may reach

// Row m of product p, in double arithmetic.
Row reference_row(const Check& check, const Operands& x, int p, int m)
{
    const Shape& s = check.shape;
    std::vector<double> row_of_a(s.K), sum(s.N), magnitude(s.N);
    for (int k = 0; k < s.K; ++k) row_of_a[k] = decode(x.A(p, m, k));
    for (int k = 0; k < s.K; ++k)
        for (int n = 0; n < s.N; ++n) {
            const double product = row_of_a[k] * decode(x.B(p, k, n));
            sum[n] += product;
            magnitude[n] += std::fabs(product);
        }

    // Rounding errors add up like a random walk (Higham and Mary, 2019): of K products.
    const double random_walk = check.data == Data::exact ? 0.0 : LAMBDA * std::sqrt(double(s.K)) * UNIT_ROUNDOFF;
    Row expected = {std::vector<Bounded>(s.N, Bounded{0, 0})};
    for (int n = 0; n < s.N; ++n) {
        const Bounded acc = {sum[n], random_walk * double(magnitude[n])};
        expected.C[n] = linear(check, acc, check.scalars.beta == 0 ? 0 : decode(x.C(p, m, n)));
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
    const cudaError_t started = launch(s, {address(s.K == 0 ? nullptr : x.A.to_device()), address(s.K == 0 ? nullptr : x.B.to_device()), address(x.C.to_device())}, check.scalars);
    if (started != cudaSuccess) std::puts(gemm_refusal());
    must(describe(check).c_str(), started);
    must(describe(check).c_str(), cudaDeviceSynchronize());
    const Storage<float> new_C = x.C.from_device();

    std::string problem;
    for (int row = 0; row < rows_of_all(s) && problem.empty(); ++row) {
        const Row expected = reference_row(check, x, row / s.M, row % s.M);
        problem = wrong_in_row("C", row / s.M, row % s.M, new_C, expected.C);
    }
    if (problem.empty()) problem = writes_outside("C", s, s.N, x.C, new_C);
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
    const std::pair<std::string, unsigned> aligned[] = {{"A", 16}, {"B", 16}, {"C", 16}};
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
