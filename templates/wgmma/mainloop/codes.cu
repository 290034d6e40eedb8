/*# B has codes of 4 bits: threads turn them into numbers in registers, the first operand of products of C's transpose. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "wgmma/layout.cu" import by_k, descriptor
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/range.cu" import k_end, later
//% set origin = awaited.origin
//% set k_tiles, range_step = awaited.k_tiles, awaited.range_step
/*# By type: a number whose last bits are those of a code, as bits and as a word, and the instructions' suffix for pairs. #*/
//% set magics, numbers, pairs = {"BF16": "0x4300", "F16": "0x6400"}, {"BF16": "128", "F16": "1024"}, {"BF16": "bf16x2", "F16": "f16x2"}
/*# Of the several instructions of a consumer's tile, the i-th: of a name, and the loop over them. #*/
//% macro of(view)
${ "[i]" if view.mmas }
//%- endmacro
//% macro all(view)
//% if view.mmas
#pragma unroll
for (int i = 0; i < ${ view.mmas }; ++i) {
${ caller() | indent(4, true) | trim("\n") }
}
//% else
${ caller() | trim("\n") }
//% endif
//% endmacro
//% macro types(view)
//% set words = [4, view.depth // 16] | min
// Codes that a thread loads at once, words of eight, and a chunk's: of its two columns.
struct alignas(${ 4 * words }) Codes {
    unsigned at[${ words }];
};
using ChunkOfThread = Codes[CHUNK_K / ${ 16 * words }];

// Numbers of B that an instruction takes from this thread, for one step of k: a pair in each register.
using Fragment = unsigned[4];
using Fragments = Fragment${ "[%s]" | format(view.mmas) if view.mmas };

//% endmacro
//% macro functions(view)
//% import view.blocks as blocks
//% set pair, magic, number = pairs[view.number.ctype], magics[view.number.ctype], numbers[view.number.ctype]
//% set words = [4, view.depth // 16] | min
// Scales and zero points of the two columns of B, g and g + 8 of a warp's 16 (lane 4 g + t), that this thread multiplies: pairs of
// twice the same number. A zero point has ${ number } added to it, as codes have.
struct Scales {
    unsigned scale[2], zero[2];
};

__device__ __forceinline__ unsigned twice(unsigned number) { return number | number << 16; }

__device__ __forceinline__ Scales load_scales(const unsigned* chunk)
{
    const int column = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    const unsigned short* const scales = reinterpret_cast<const unsigned short*>(chunk + CHUNK_K / 4 * LINE_B) + column;
    Scales found;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        found.scale[i] = twice(scales[8 * i]);
//% if view.zeros
        found.zero[i] = twice(scales[64 + 8 * i]);
//% else
        found.zero[i] = twice(${ magic }${ " + %d" | format(view.middle) if view.middle });
//% endif
    }
    return found;
}

// This thread's codes of a chunk: of all warps' lanes side by side.
__device__ __forceinline__ void load_codes(const unsigned* chunk, ChunkOfThread& codes)
{
    #pragma unroll
    for (int i = 0; i < CHUNK_K / ${ 16 * words }; ++i) codes[i] = reinterpret_cast<const Codes*>(chunk)[i * 128 + threadIdx.x % 128];
}

// The numbers of eight codes, two in each register: of column g at k + 2 t and the next, of column g + 8, and of both at k + 8 + 2 t.
// ${ number } plus a code is exact, its last bits are the code's, and its distance from a zero point is exact, too. The product with the
// scale is rounded once.
__device__ __forceinline__ void numbers_of(unsigned codes, const Scales& of, Fragment& numbers)
{
    unsigned last_bits;  // of both halves of a word: volatile, or ptxas would load this constant again for each use
    asm volatile("mov.b32 %0, 0x000f000f;" : "=r"(last_bits));
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        asm("{ .reg .b32 code, distance;\n"
            "lop3.b32 code, %1, %2, ${ magic }${ magic[2:] }, 0xea;\n"  // (%1 & %2) | ${ magic }${ magic[2:] }
            "sub.rn.${ pair } distance, code, %3;\n"
            "mul.rn.${ pair } %0, distance, %4; }"
            : "=r"(numbers[r]) : "r"(codes >> 4 * r), "r"(last_bits), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
    }
}

// acc += A * B for one step of k in a stage: in flight until wgmma_wait, as is what the products read, `fragments` among it.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int k, const Fragments& fragments, Accumulators& acc)
{
    const unsigned long long a = ${ descriptor(view.second) } + ${ by_k(view.second) };
    wgmma_fence();
//% filter indent(4, true)
//% call all(view)
${ view.wgmma.function }(acc${ of(view) }, fragments${ of(view) }, a);
//% endcall
//% endfilter
    wgmma_commit();
}

${ blocks.release_stage() }
//% endmacro
//% macro products(view)
//% from view.ends import to_the_end
//% set words, array = [4, view.depth // 16] | min, "[%s]" | format(view.mmas) if view.mmas
//% set chunk = "shared.b[ring.stage][at / CHUNK_K][consumer%s]" | format(" * %s + i" | format(view.mmas) if view.mmas)
Accumulators acc = {};
Fragments fragments[2];  // of a step of k, and of the next one, which is made while the products of the first go on
int previous = 0;  // the stage that products under way may still read
//% call to_the_end(view)
//% call each_k_tile(view)
#pragma unroll
for (int at = 0; at < BK; at += CHUNK_K) {
    Scales scales${ array };
    ChunkOfThread codes${ array };
//% filter indent(4, true)
//% call all(view)
scales${ of(view) } = load_scales(${ chunk });
load_codes(${ chunk }, codes${ of(view) });
//% endcall
//% endfilter
    #pragma unroll
    for (int step = 0; step < CHUNK_K; step += K_STEP) {
        Fragments& fragment = fragments[step / K_STEP % 2];
//% filter indent(8, true)
//% call all(view)
numbers_of(codes${ of(view) }[step / ${ 16 * words }].at[step / 16 % ${ words }], scales${ of(view) }, fragment${ of(view) });
//% if view.cut_k
#pragma unroll
for (int r = 0; r < 4; ++r)  // beyond K: zeros of A times a scale of infinity would be NaN
    if (k + at + step >= ${ k_end(view) }) fragment${ of(view) }[r] = 0;
//% endif
//% endcall
//% endfilter
        multiply_step(shared, ${ "first_lane(ring.stage)" if view.uniform else "ring.stage" }, at + step, fragment, acc);
        wgmma_wait<1>();  // for the step before, which reads the other fragments
        if (at + step == 0 && ${ later(view) }) release_stage(shared, previous);
    }
}
previous = ring.stage;
//% endcall
//% endcall
//% endmacro
