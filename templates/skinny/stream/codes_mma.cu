/*# Packed codes, on tensor cores: the warps of a block take the same T columns, each at other k. #*/
//% from "device/codes.cu" import chunks_across, numbers, scales, words
//% from "device/mma.cu" import mma
//% from "skinny/stream/mma_sums.cu" import store_sums
//% macro stream(x, w, view)
${ mma((view.mma,)) }
using Fragments = unsigned[S / 8][LANE_K / 2];  // this thread's part of A for a step, two neighbouring k in each
using Accumulators = ${ T }[S / 8][T / 16][4];  // by instructions: 8 rows of A times 16 columns of B

${ scales(view.codes, raw=true) }
${ numbers(view.codes) }
${ words(view.codes) }
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

${ chunks_across() }
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
    asm volatile("ld.global.nc.L1::no_allocate.v${ view.codes.words }.u32 {%${ range(view.codes.words) | join(", %") }}, [%${ view.codes.words }];"
//% if view.codes.step_words == 1
                 : ${ '"=r"(found.at[%s])' | format(range(view.codes.words) | join(']), "=r"(found.at[')) } : "l"(from));
//% else
                 : "=r"(found.at[0].x), "=r"(found.at[0].y), "=r"(found.at[1].x), "=r"(found.at[1].y) : "l"(from));
//% endif
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
        columns[i].codes = load_codes(chunk + (part * 128 + column * 2 + lane) * ${ view.codes.words });
        columns[i].scales = load_scales(chunk, column + lane / 4);
    }
}
//% endmacro

/*# What follows the small operand's functions. #*/
//% macro products(x, w, view)
// acc += the products of a step: numbers of B are the instruction's 16 rows (a), rows of A its 8 columns (b).
__device__ __forceinline__ void multiply_step(const Fragments& fragments, const Columns (&columns)[LOADS], Accumulators& acc)
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
                ${ view.mma.function }(acc[i][j], a, b);
            }
        }
    }
}

//% call store_sums("T / 16")
            for (int v = 0; v < 4; ++v) sums[warp][8 * i + line + v % 2][thread.${ w.mn } + 16 * j + v / 2 * 8] = acc[i][j][v];
//% endcall
//% endmacro
