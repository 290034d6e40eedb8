// gemm_bf16_rr_b4096_16x16x16_sm90_e0088703
//
//     C = alpha * A * B + beta * C      bf16; sums in f32 on tensor cores; C is read unless beta = 0, A and B always
//     for each of 4096 products
//
//     A  16 x 16, row-major, lda = 16, stride_a = 256
//     B  16 x 16, row-major, ldb = 16, stride_b = 256
//     C  16 x 16, row-major, ldc = 16, stride_c = 256
//
// Block   8 products by as many warps, which never wait for each other
// Warp    a product, in k tiles of 16: for each 16 k 2 mmas of 16 x 8 x 16
//
// Launch  ceil(batch / 8) blocks of 256 threads
// Expects A, B and C at addresses divisible by 16, C overlapping neither A nor B,
//         no two matrices of C that overlap
// Config  gemm_bf16_rr_b4096_16x16x16_batchedmma_warps8_k16_pdl1
// Made by gemmgen generate 16x16x16 --dtype bf16 --layout rr --batch 4096 --arch sm_90 --family batchedmma --set WARPS=8 --set PDL=1

namespace {

// The nearest bfloat16, ties to even.
__device__ __forceinline__ unsigned short bf16_from_float(float value)
{
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// A bfloat16: the upper half of a float.
struct BF16 {
    unsigned short bits;
    BF16() = default;
    __device__ __forceinline__ explicit BF16(float value) : bits(bf16_from_float(value)) {}
    __device__ __forceinline__ operator float() const { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
};

// Sizes, and leading dimensions and strides in elements. Those that are constants fold into the code.
struct Shape {
    static constexpr int M = 16;
    static constexpr int N = 16;
    static constexpr int K = 16;
    static constexpr int lda = 16;
    static constexpr int ldb = 16;
    static constexpr int ldc = 16;
    static constexpr int batch = 4096;
    static constexpr long long stride_a = 256;
    static constexpr long long stride_b = 256;
    static constexpr long long stride_c = 256;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int WARPS = 8;  // warps of a block, each with a product of its own
constexpr int BK = 16;    // k whose elements of A and B a warp loads at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int BM = 16;               // rows of C: all of them
constexpr int BN = 16;               // columns of C: all of them
constexpr int MMAS_M = BM / 16;      // instructions down a product
constexpr int MMAS_N = BN / 8;       // instructions across a product
constexpr int K_STEPS = BK / 16;     // instructions along a k tile
constexpr int WORDS = 2 * K_STEPS;   // pairs of neighbours along k that a lane has of a line's k tile
constexpr int VA = 4;                // elements of an access to A
constexpr int VB = 2;                // elements of an access to B

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
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
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
__device__ __forceinline__ void load_a(const BF16* A, Shape s, int row, int k, unsigned (&a)[TM][WORDS])
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int word = 0; word < WORDS; word += VA / 2) {
            const Words<VA / 2> read = load_words<VA / 2>(A + Offset(row + i) * s.lda + k + 2 * word);
            #pragma unroll
            for (int v = 0; v < VA / 2; ++v) a[i][word + v] = read.at[v];
        }
    }
}

// This lane's columns of B from `column` on: of each its pairs of neighbours along k, from `k` on.
__device__ __forceinline__ void load_b(const BF16* B, Shape s, int column, int k, unsigned (&b)[MMAS_N][WORDS])
{
    #pragma unroll
    for (int word = 0; word < WORDS; ++word) {
        const BF16* const even = B + Offset(k + 2 * word) * s.ldb + column;
        #pragma unroll
        for (int i = 0; i < MMAS_N; i += VB) {
            const Words<VB / 2> first = load_words<VB / 2>(even + i), second = load_words<VB / 2>(even + s.ldb + i);
            #pragma unroll
            for (int v = 0; v < VB / 2; ++v) {  // two columns at two k become two k of each
                b[i + 2 * v][word] = __byte_perm(first.at[v], second.at[v], 0x5410);
                b[i + 2 * v + 1][word] = __byte_perm(first.at[v], second.at[v], 0x7632);
            }
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
                mma_m16n8k16_bf16(acc[i][j], rows, column);
            }
        }
    }
}

// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(BF16* to, Vec<float, N> value, float beta)
{
    if (beta != 0.0f) {
        const Vec<BF16, N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = fmaf(beta, old.at[i], value.at[i]);
    }
    Vec<BF16, N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = BF16(value.at[i]);
    store<N>(to, stored);
}

// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(BF16* tile, Shape s, ThreadOrigin thread, int i,
                                          const float (&sums)[TN], float alpha, float beta)
{
    const int m = thread.m + i / FM * STEP_M + i % FM;
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<float, VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
    }
}

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(BF16* tile, Shape s, ThreadOrigin thread,
                                        const float (&sums)[TM][TN], float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < TM; ++i) store_row(tile, s, thread, i, sums[i], alpha, beta);
}

// Programmatic dependent launch, an attribute of launches: a kernel may start while the one before on the stream runs.
// Wait until that has ended and its writes are visible; and let the next one start once all blocks have come here.
__device__ __forceinline__ void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_bf16_rr_b4096_16x16x16_sm90_e0088703(
    const BF16* __restrict__ A, const BF16* __restrict__ B, BF16* __restrict__ C, float alpha, float beta)
{
    grid_dependency_wait();  // this kernel's blocks are resident by the time the one before ends
    launch_dependents();
    const Shape s{};
    const int product = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    A += product * s.stride_a;
    B += product * s.stride_b;
    C += product * s.stride_c;
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
    store_c(C, s, thread, sums, alpha, beta);
}
