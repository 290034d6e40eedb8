// gemm_f16f16f32_cc_p1000_16x64x64_bias_relu_sm90_944819be
//
//     C = relu(alpha * acc + beta * C + bias_n)      acc = A * B; A f16, B f16, C f32; sums in f32 on tensor cores;
//                                                    C is read unless beta = 0, A and B always
//     for each of 1000 products, whose matrices lie where A_array, B_array and C_array say
//
//     A  16 x 64, column-major, lda = 16
//     B  64 x 64, column-major, ldb = 64
//     C  16 x 64, row-major, ldc = 64
//     bias_n  64 elements, one a column of C; the same for all products
//
// Block   8 products by as many warps, which never wait for each other
// Warp    a product, in k tiles of 32: for each 16 k 8 mmas of 16 x 8 x 16
//
// Launch  ceil(batch / 8) blocks of 256 threads
// Expects A_array, B_array and C_array of 1000 device pointers each,
//         each of them divisible by 16; those to A and B may repeat and overlap,
//         no matrix of C overlapping another matrix of A, B or C
// Config  gemm_f16f16f32_cc_p1000_16x64x64_bias_relu_batchedmma_warps8_k32
// Made by gemmgen generate 16x64x64 --types f16,f16,f32 --layout cc --batch 1000 --pointers --epilogue 'relu(alpha * acc + beta * C + bias_n)' --arch sm_90 --family batchedmma --set WARPS=8

namespace {

// A half, IEEE 754's binary16.
struct F16 {
    unsigned short bits;
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 16;
    static constexpr int N = 64;
    static constexpr int K = 64;
    static constexpr int lda = 16;
    static constexpr int ldb = 64;
    static constexpr int ldc = 64;
    static constexpr int batch = 1000;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int WARPS = 8;  // warps of a block, each with a product of its own
constexpr int BK = 32;    // k whose elements of A and B a warp loads at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int BM = 16;               // rows of C: all of them
constexpr int BN = 64;               // columns of C: all of them
constexpr int MMAS_M = BM / 16;      // instructions down a product
constexpr int MMAS_N = BN / 8;       // instructions across a product
constexpr int K_STEPS = BK / 16;     // instructions along a k tile
constexpr int WORDS = 2 * K_STEPS;   // pairs of neighbours along k that a lane has of a line's k tile
constexpr int VA = 2;                // elements of an access to A
constexpr int VB = 8;                // elements of an access to B

// How C leaves registers
constexpr int TM = BM / 8;  // neighbouring rows of a lane
constexpr int TN = BN / 4;  // neighbouring columns of a lane
constexpr int FM = TM;      // of them side by side: all
constexpr int FN = TN;      // of them side by side: all
constexpr int STEP_M = BM;  // rows from these to a lane's next: it has no more
constexpr int STEP_N = BN;  // columns, likewise
constexpr int VC = 4;       // elements of an access to C

static_assert(BK % 16 == 0, "an instruction sums over 16 k");
static_assert(Shape::K % BK == 0, "tiles end where K does: no access is checked for that");

// N elements that move as one access.
template <typename E, int N>
struct alignas(sizeof(E) * N) Vec {
    E at[N];
};

template <int N, typename E>
__device__ __forceinline__ Vec<E, N> load(const E* from)
{
    return *reinterpret_cast<const Vec<E, N>*>(from);
}

template <int N, typename E>
__device__ __forceinline__ void store(E* to, const Vec<E, N>& value)
{
    *reinterpret_cast<Vec<E, N>*>(to) = value;
}

// N pairs of elements that move as one access.
template <int N>
struct alignas(4 * N) Words {
    unsigned at[N];
};

template <int N>
__device__ __forceinline__ Words<N> load_words(const void* from)
{
    return *static_cast<const Words<N>*>(from);
}

// d += a * b, 16 x 8 x 16, by a warp. Lane 4 g + t holds of d columns 2 t and 2 t + 1 in row g and every 8th
// after it; of a the same rows, of b column g, each at k = 2 t to 2 t + 1, and every 8 further on.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A lane's first row and column of C, TM and TN of which it has. Which of them, and which k, an instruction calls its
// own is free while A, B and C agree: row g + 8 h of instruction i is row g * TM + 2 * i + h here, column c of
// instruction j is column c * MMAS_N + j, and k goes to lanes t = 0 to 3 in runs of BK / 4.
struct ThreadOrigin {
    int m, n;
};

// This lane's rows of A from `row` on: of each its pairs of neighbours along k, from `k` on.
__device__ __forceinline__ void load_a(const F16* A, Shape s, int row, int k, unsigned (&a)[TM][WORDS])
{
    #pragma unroll
    for (int word = 0; word < WORDS; ++word) {
        const F16* const even = A + Offset(k + 2 * word) * s.lda + row;
        #pragma unroll
        for (int i = 0; i < TM; i += VA) {
            const Words<VA / 2> first = load_words<VA / 2>(even + i), second = load_words<VA / 2>(even + s.lda + i);
            #pragma unroll
            for (int v = 0; v < VA / 2; ++v) {  // two rows at two k become two k of each
                a[i + 2 * v][word] = __byte_perm(first.at[v], second.at[v], 0x5410);
                a[i + 2 * v + 1][word] = __byte_perm(first.at[v], second.at[v], 0x7632);
            }
        }
    }
}

// This lane's columns of B from `column` on: of each its pairs of neighbours along k, from `k` on.
__device__ __forceinline__ void load_b(const F16* B, Shape s, int column, int k, unsigned (&b)[MMAS_N][WORDS])
{
    #pragma unroll
    for (int i = 0; i < MMAS_N; ++i) {
        #pragma unroll
        for (int word = 0; word < WORDS; word += VB / 2) {
            const Words<VB / 2> read = load_words<VB / 2>(B + Offset(column + i) * s.ldb + k + 2 * word);
            #pragma unroll
            for (int v = 0; v < VB / 2; ++v) b[i][word + v] = read.at[v];
        }
    }
}

// acc += the products of a k tile.
__device__ __forceinline__ void mma(const unsigned (&a)[TM][WORDS], const unsigned (&b)[MMAS_N][WORDS],
                                    float (&acc)[MMAS_M][MMAS_N][4])
{
    #pragma unroll
    for (int step = 0; step < K_STEPS; ++step) {
        #pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
            const unsigned rows[4] = {a[2 * i][2 * step], a[2 * i + 1][2 * step], a[2 * i][2 * step + 1],
                                      a[2 * i + 1][2 * step + 1]};
            #pragma unroll
            for (int j = 0; j < MMAS_N; ++j) {
                const unsigned column[2] = {b[j][2 * step], b[j][2 * step + 1]};
                mma_m16n8k16_f16(acc[i][j], rows, column);
            }
        }
    }
}

__device__ __forceinline__ float relu(float x)
{
    return x < 0 ? 0 : x;
}

// What the epilogue takes beside sums and C. Pointers lead to the first row and column that it is asked for.
struct Epilogue {
    float alpha, beta;
    const float* bias_n;
};

// C's new element; c is the old one, or 0 where beta = 0:
// relu(alpha * acc + beta * C + bias_n)
__device__ __forceinline__ float epilogue(const Epilogue& e, int n, float acc, float c)
{
    const float bias_n = e.bias_n[n];
    const float x = fmaf(e.alpha, acc, e.beta == 0.0f ? bias_n : fmaf(e.beta, c, bias_n));
    return relu(x);
}

// N new elements to C.
template <int N>
__device__ __forceinline__ void store_results(float* to, const Epilogue& e, int n, Vec<float, N> value)
{
    Vec<float, N> old = {};
    if (e.beta != 0.0f) old = load<N>(to);  // else C is not read: it may be uninitialised
    Vec<float, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = epilogue(e, n + i, value.at[i], old.at[i]);
    store<N>(to, stored);
}

// The i-th of this thread's rows of C, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(float* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], const Epilogue& e)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, e, n, value);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(float* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], const Epilogue& e)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], e);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_f16f16f32_cc_p1000_16x64x64_bias_relu_sm90_944819be(
    const F16* const* __restrict__ A_array, const F16* const* __restrict__ B_array, float* const* __restrict__ C_array,
    const float* __restrict__ bias_n, float alpha, float beta)
{
    const Shape s{};
    const int product = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    const F16* __restrict__ const A = A_array[product];
    const F16* __restrict__ const B = B_array[product];
    float* __restrict__ const C = C_array[product];
    const ThreadOrigin thread = {lane / 4 * TM, lane % 4 * TN};
    float acc[MMAS_M][MMAS_N][4] = {};
    #pragma unroll
    for (int k = 0; k < Shape::K; k += BK) {
        unsigned a[TM][WORDS], b[MMAS_N][WORDS];
        load_a(A, s, thread.m, k + lane % 4 * (BK / 4), a);
        load_b(B, s, lane / 4 * MMAS_N, k + lane % 4 * (BK / 4), b);
        mma(a, b, acc);
    }
    float sums[TM][TN];
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] = acc[i / 2][j % MMAS_N][i % 2 * 2 + j / MMAS_N];
    }
    const Epilogue e = {alpha, beta, bias_n};
    store_c(C, s, thread, sums, e);
}
