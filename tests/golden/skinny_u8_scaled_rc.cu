// gemm_bf16u8bf16_rc_8x4096x4096_sm90_4cb11120
//
//     C = alpha * A * B + beta * C      A bf16, B u8, C bf16; sums in f32 on tensor cores;
//                                       C is read unless beta = 0, A and B always
//
//     A  8 x 4096, row-major, lda = 4096
//     B  4096 x 4096, column-major, ldb = 4096
//     C  8 x 4096, row-major, ldc = 4096
//     scales_b  32 x 4096, row-major: a scale for each column of B and group of K
//     zeros_b  32 x 4096, row-major: a zero point for each column of B and group of K
//
// Block   8 x 16 of C by 256 threads, 5120 bytes of shared memory
// Warp    8 x 16 of C on tensor cores, over 1/8 of K: the sums of 8 warps are added up at the end
// Weights the elements of B, each multiplied by those of A, the small operand, at the same k
// Reads   each weight once, to a register, with 33280 bytes of a block in flight; 7.88 FLOP for a byte of global memory
// Cached  A, which every warp reads again: L1 serves most of it
// Bound   global memory: too few FLOP for each byte, on every known card
//
// Launch  ceil(M / 8) * ceil(N / 16) blocks of 256 threads
// Expects A, B, C, scales_b and zeros_b at addresses divisible by 16, C overlapping no other operand,
//         prepared_b: ceil(4096 / 64) * ceil(4096 / 128) * 2112 words of 32 bits, at an address divisible by 16, which
//         gemm_bf16u8bf16_rc_8x4096x4096_sm90_4cb11120_prepare_b_kernel writes before: any grid, blocks of 256 threads,
//         no other launch using the same workspace at the same time
// Config  gemm_bf16u8bf16_rc_8x4096x4096_k128_zeros_skinny_s8_t16_w8_k0_u4_mma1_v4_split1
// Made by gemmgen generate 8x4096x4096 --types bf16,u8,bf16 --inputs scales=128+zeros --layout rc --arch sm_90 --family skinny

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
    static constexpr int M = 8;
    static constexpr int N = 4096;
    static constexpr int K = 4096;
    static constexpr int lda = 4096;
    static constexpr int ldb = 4096;
    static constexpr int ldc = 4096;
};
using Offset = int;  // elements from a matrix's start: stays below 2^31 here

// Parameters
constexpr int S = 8;       // lines (rows or columns) of the small operand in a block: uses of a weight
constexpr int T = 16;      // elements along C's long side that a warp sums
constexpr int WARPS = 8;   // warps of a block
constexpr int UNROLL = 4;  // steps along K whose weights are under way at once

// Work split
constexpr int THREADS = 32 * WARPS;  // threads a block
constexpr int MINB = 1;              // blocks that must fit an SM at once: more would cost loads under way
constexpr int BM = S;                // rows of C that a block computes
constexpr int BN = T;                // columns of C that a block computes
constexpr int OUTPUTS = (BM * BN + THREADS - 1) / THREADS;  // elements of C that a thread stores at most

// Weights
constexpr int VW = 8;                 // k of an access to codes, of two columns
constexpr int LOADS = T / 16;         // accesses of a thread a step
constexpr int STEP = 4 * VW * WARPS;  // k that a block takes in a step
constexpr int LANE_K = VW;            // k that a lane takes in a step
constexpr int XW = 2;                 // elements of an access to the small operand
constexpr int CHUNK_K = 128;          // k of a chunk of packed codes
constexpr int PACKED_WORDS = 2112;    // words of a chunk: codes, scales and zero points

// Shared memory
constexpr int SUMS_PITCH = BN + 4;                     // floats from one line of sums to the next
constexpr int PARTIALS = WARPS;                        // sums of each element of C that meet in shared memory
constexpr int SUMS_WORDS = PARTIALS * S * SUMS_PITCH;  // floats of the sums at the end

// Shared memory, in all
constexpr int SHARED_WORDS = SUMS_WORDS;  // floats of shared memory

static_assert(S * T <= 1024, "larger tiles of sums exceed the registers");
static_assert(S % 8 == 0, "an instruction takes 8 lines of the small operand");
static_assert(XW % 2 == 0, "loads of the small operand bring whole pairs of k");
static_assert(T % 16 == 0 and VW % 4 == 0, "a warp takes 16 lines of weights at once");
static_assert(Shape::M % BM == 0, "tiles end where M does: no access is checked for that");
static_assert(Shape::N % BN == 0, "tiles end where N does: no access is checked for that");

// Where a thread starts: k and column n of C.
struct ThreadOrigin {
    int k, n;
};

using Sums = float[S][SUMS_PITCH];  // one of each element of a block's tile: [m][n]

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

using Fragments = unsigned[S / 8][LANE_K / 2];  // this thread's part of A for a step, two neighbouring k in each
using Accumulators = float[S / 8][T / 16][4];  // by instructions: 8 rows of A times 16 columns of B

// Scales and zero points of two columns of B, 8 apart. A zero point is a float that has 8388608 added to it, as codes
// have.
// Scales are replicated in both halves of a word.
struct Scales {
    unsigned scale[2], zero[2];
};

__device__ __forceinline__ unsigned replicated(unsigned number) { return number | number << 16; }

// Scales as they lie in memory. They are converted where they are used, since that waits for the loads.
struct RawScales {
    unsigned short scale[2], zero[2];
};

// Load those of columns `column` and `column + 8` of a chunk; they follow its codes.
__device__ __forceinline__ RawScales load_scales(const unsigned* chunk, int column)
{
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + 16 * CHUNK_K) + column;
    return {{scales[0], scales[8]}, {scales[64], scales[72]}};
}

__device__ __forceinline__ Scales scales_of(const RawScales& raw)
{
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = replicated(raw.scale[i]);
        found.zero[i] = 0x4b000000 | raw.zero[i];
    }
    return found;
}

// Dequantise eight codes, the bytes of two words. Register r of a fragment has column g + 8 * (r % 2) at k = 2 t + 8 *
// (r / 2) and the next (lane 4 g + t). 8388608 plus a code is exact (the code becomes its last bits), and so is its
// difference from 8388608 plus a zero point.
// The difference has eight significant bits: the upper half of a float holds it.
// The difference's product with the scale is rounded once.
// fma adds -0 to that product, which changes nothing.
__device__ __forceinline__ void dequantise(uint2 codes, const Scales& of, unsigned (&numbers)[4])
{
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const unsigned word = r < 2 ? codes.x : codes.y;
        const float zero = __uint_as_float(of.zero[r % 2]);
        const float first = __uint_as_float(__byte_perm(word, 0x4b000000, r % 2 ? 0x7442 : 0x7440)) - zero;
        const float second = __uint_as_float(__byte_perm(word, 0x4b000000, r % 2 ? 0x7443 : 0x7441)) - zero;
        const unsigned difference = __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(numbers[r]) : "r"(difference), "r"(of.scale[r % 2]),
            "r"(0x80008000));
    }
}

// Codes that a thread loads at once: eight in two words.
struct alignas(16) Codes {
    uint2 at[2];
};

// This thread's codes of a step, and what scales them: of columns g and g + 8 of 16 (lane 4 g + t).
struct Columns {
    Codes codes;
    RawScales scales;
};

// This thread's first k, of fragments of A, and column, from the block's: lane 4 g + t has k = 2 t and column g.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {warp * 4 * LANE_K + lane % 4 * 2, lane / 4};
}

// Chunks of 64 columns that lie side by side.
__device__ __forceinline__ int chunks_across(Shape s) { return (s.N + 63) / 64; }

// The chunk of this warp's first codes. A step is a whole number of chunks along K: the next ones lie a stride apart.
__device__ __forceinline__ const unsigned* first_chunk(const int* packed, Shape s, int begin, int n)
{
    const int k = begin + threadIdx.x / 32 * 4 * LANE_K;
    return reinterpret_cast<const unsigned*>(packed) + (Offset(k / CHUNK_K) * chunks_across(s) + n / 64) * PACKED_WORDS;
}

// Load codes past L1, which is left to A.
__device__ __forceinline__ Codes load_codes(const unsigned* from)
{
    Codes found;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.at[0].x), "=r"(found.at[0].y), "=r"(found.at[1].x), "=r"(found.at[1].y) : "l"(from));
    return found;
}

// Start the loads of a step: of each 16 columns this thread's codes, of 4 * LANE_K k, and scales.
__device__ __forceinline__ void load_columns(const unsigned* chunk, int n, Columns (&columns)[LOADS])
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int part = warp % (CHUNK_K / (4 * LANE_K));  // of the chunk's k
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const int column = (n - lane / 4) % 64 + 16 * i;  // the first of the 16 in the chunk
        columns[i].codes = load_codes(chunk + (part * 128 + column * 2 + lane) * 4);
        columns[i].scales = load_scales(chunk, column + lane / 4);
    }
}

// This thread's fragments of A: of row l / 4 in lane l, and of every 8th after it, the pairs at every 8th k from the
// first on.
struct Rows {
    const BF16* at[S / 8];
};

__device__ __forceinline__ Rows first_rows(const BF16* A, Shape s, int tile_m, int k)
{
    const int m = tile_m + threadIdx.x % 32 / 4;
    Rows rows;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) rows.at[i] = A + Offset(m + 8 * i) * s.lda + k;
    return rows;
}

// Start the loads of a step that lies `further` k on.
__device__ __forceinline__ void load_fragments(const Rows& rows, int further, Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int pair = 0; pair < LANE_K / 2; ++pair)
            fragments[i][pair] = *reinterpret_cast<const unsigned*>(rows.at[i] + further + 8 * pair);
    }
}

// acc += the products of a step: numbers of B are the instruction's 16 rows (a), rows of A its 8 columns (b).
__device__ __forceinline__ void multiply_step(const Fragments& fragments, const Columns (&columns)[LOADS],
                                              Accumulators& acc)
{
    #pragma unroll
    for (int j = 0; j < LOADS; ++j) {
        const Scales scales = scales_of(columns[j].scales);
        #pragma unroll
        for (int step = 0; step < LANE_K / 4; ++step) {
            unsigned a[4];
            dequantise(columns[j].codes.at[step], scales, a);
            #pragma unroll
            for (int i = 0; i < S / 8; ++i) {
                const unsigned b[] = {fragments[i][2 * step], fragments[i][2 * step + 1]};
                mma_m16n8k16_bf16(acc[i][j], a, b);
            }
        }
    }
}

// Store this thread's sums, over the k of its warp, to shared memory.
__device__ __forceinline__ void store_sums(const Accumulators& acc, ThreadOrigin thread, Sums* sums)
{
    const int warp = threadIdx.x / 32, line = threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < S / 8; ++i) {
        #pragma unroll
        for (int j = 0; j < T / 16; ++j) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) sums[warp][8 * i + line + v % 2][thread.n + 16 * j + v / 2 * 8] = acc[i][j][v];
        }
    }
}

// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(BF16* C, Shape s, int tile_m, int tile_n, const float (&sums)[OUTPUTS],
                                        float alpha, float beta)
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        BF16* const to = C + Offset(m) * s.ldc + n;
        *to = BF16(beta == 0.0f ? alpha * sums[i] : fmaf(beta, *to, alpha * sums[i]));  // beta = 0 leaves C unread
    }
}

}  // namespace

// prepared_b = B's codes with their scales and zero points, in chunks of 64 columns by 128 of K: 66 lines of 128 bytes
// each.
// Of 16 columns by 16 k, lane 4 g + t of a warp has columns g and g + 8 at k = 2 t, 2 t + 1, 2 t + 8 and 2 t + 9: eight
// codes, two words.
// Codes 2 r and 2 r + 1 make register r of a fragment: column g + 8 * (r % 2), k = 2 t + 8 * (r / 2) and the next.
extern "C" __global__ void __launch_bounds__(256)
gemm_bf16u8bf16_rc_8x4096x4096_sm90_4cb11120_prepare_b_kernel(
    const unsigned char* __restrict__ B, const BF16* __restrict__ scales_b, const unsigned char* __restrict__ zeros_b,
    int* __restrict__ prepared_b)
{
    const int across = (4096 + 63) / 64;
    const int tiles = across * ((4096 + 127) / 128);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first_n = tile % across * 64, first_k = tile / across * 128;
        unsigned* const chunk = reinterpret_cast<unsigned*>(prepared_b) + static_cast<long long>(tile) * 2112;
        for (int i = threadIdx.x; i < 1024; i += 256) {
            const int thread = i / 2 % 128, step = i / 256 * 2 + i % 2;  // of the warpgroup, of 16 of K
            const int n = first_n + thread / 32 * 16 + thread % 32 / 4, k = first_k + step * 16 + thread % 4 * 2;
            uint2 words = {};
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                const int column = n + v / 2 % 2 * 8, at = k + v / 4 * 8 + v % 2;
                if (column >= 4096 || at >= 4096) continue;
                const long long from = static_cast<long long>(column) * 4096 + at;
                const unsigned code = (B[from] & 255);
                (v < 4 ? words.x : words.y) |= code << 8 * (v % 4);
            }
            reinterpret_cast<uint2*>(chunk)[i] = words;
        }
        for (int i = threadIdx.x; i < 64; i += 256) {
            const int n = first_n + i;
            const bool inside = n < 4096;
            const long long from = static_cast<long long>(first_k / 128) * 4096 + n;
            unsigned short* const own = reinterpret_cast<unsigned short*>(chunk + 2048) + i;
            *own = inside ? scales_b[from].bits : 0;
            const int zero = inside ? (zeros_b[from] & 255) : 0;
            own[64] = static_cast<unsigned short>(zero);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MINB)
gemm_bf16u8bf16_rc_8x4096x4096_sm90_4cb11120(
    const BF16* __restrict__ A, const int* __restrict__ prepared_b, BF16* __restrict__ C, float alpha, float beta)
{
    __shared__ __align__(16) float shared[SHARED_WORDS];
    Sums* const block_sums = reinterpret_cast<Sums*>(shared);  // PARTIALS of each element, at the end

    const Shape s{};
    const int tile = blockIdx.x;
    const int begin = 0, end = s.K;
    const int tiles_along = (s.M + BM - 1) / BM;  // along M: they read the same weights, so they run together
    const int tile_m = tile % tiles_along * BM, tile_n = tile / tiles_along * BN;
    const ThreadOrigin thread = thread_origin();
    const int n = tile_n + thread.n;

    // A ring of registers: a step's codes and scales, and A's fragments for them, are loaded UNROLL steps before their
    // use.
    const Offset stride = Offset(STEP / CHUNK_K) * chunks_across(s) * PACKED_WORDS;  // to the chunks of the next step
    const unsigned* chunk = first_chunk(prepared_b, s, begin, n);
    const Rows rows = first_rows(A, s, tile_m, begin + thread.k);
    const int last = end;
    Columns columns[UNROLL][LOADS];
    Fragments fragments[UNROLL];
    #pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        load_columns(chunk + u * stride, n, columns[u]);
        load_fragments(rows, u * STEP, fragments[u]);
    }

    Accumulators acc = {};
    for (int k = begin; k < last; k += UNROLL * STEP) {
        chunk += UNROLL * stride;
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            multiply_step(fragments[u], columns[u], acc);
            const int next = k + (UNROLL + u) * STEP;
            if (next >= last) continue;  // the branch keeps ptxas from putting off all loads to the end of the loop
            load_columns(chunk + u * stride, n, columns[u]);
            load_fragments(rows, next - begin, fragments[u]);
        }
    }

    // Reduce the sums of threads at different k, in the order of these.
    store_sums(acc, thread, block_sums);
    __syncthreads();
    float sums[OUTPUTS] = {};
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
        #pragma unroll
        for (int p = 0; p < PARTIALS; ++p) sums[i] += block_sums[p][element / BN][element % BN];
    }
    store_c(C, s, tile_m, tile_n, sums, alpha, beta);
}
