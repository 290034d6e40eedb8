/*# B has codes of 4 bits: threads turn them into numbers in registers, the first operand of products of C's transpose. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "wgmma/layout.cu" import by_k, descriptor
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/range.cu" import k_end, later
//% set origin = awaited.origin
//% set k_tiles, range_step = awaited.k_tiles, awaited.range_step
/*# By type: the bits of a number whose last bits are a code's, and the suffix of instructions for pairs. #*/
//% set magics, pairs = {"BF16": "0x4300", "F16": "0x6400"}, {"BF16": "bf16x2", "F16": "f16x2"}
//% macro types(view)
// Codes that a thread loads at once: words of eight.
//% set words = [4, view.depth // 16] | min
struct alignas(${ 4 * words }) Codes {
    unsigned at[${ words }];
};

// Numbers of B that an instruction takes from this thread, for one step of k: a pair in each register.
using Fragments = unsigned[${ view.mmas or 1 }][4];

//% endmacro
//% macro functions(view)
//% import view.blocks as blocks
//% set pair, magic = pairs[view.number.ctype], magics[view.number.ctype]
// Scale and zero point of the two columns of B, g and g + 8 of a warp's 16 (lane 4 g + t), that this thread multiplies: pairs of
// twice the same number. A zero point has ${ magic } added to it, as codes have.
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
        found.zero[i] = ${ magic }${ magic[2:] }u + ${ view.middle } * 0x10001u;
//% endif
    }
    return found;
}

// The numbers that four codes of 8 stand for, two and two: ${ "those of column g at k + 2 t and the next, then g + 8, and both 8 further along k" }.
// A code q in the last bits of ${ "128" if view.number.ctype == "BF16" else "1024" } is exact, and so is the difference from a zero point there; the product with the scale
// is rounded once.
__device__ __forceinline__ void numbers_of(unsigned codes, const Scales& of, unsigned (&numbers)[4])
{
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        const unsigned code = (codes >> 4 * r & 0x000f000fu) | ${ magic }${ magic[2:] }u;
        asm("{ .reg .b32 difference;\n"
            "sub.rn.${ pair } difference, %1, %2;\n"
            "mul.rn.${ pair } %0, difference, %3; }"
            : "=r"(numbers[r]) : "r"(code), "r"(of.zero[r % 2]), "r"(of.scale[r % 2]));
    }
}

//% if view.cut_k
__device__ __forceinline__ void clear_fragments(Fragments& fragments)
{
    #pragma unroll
    for (int i = 0; i < ${ view.mmas or 1 }; ++i) {
        #pragma unroll
        for (int r = 0; r < 4; ++r) fragments[i][r] = 0;
    }
}

//% endif
// acc += A * B for one step of k in a stage: in flight until wgmma_wait, as is what the products read, `fragments` among it.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int k, const Fragments& fragments, Accumulators& acc)
{
    const unsigned long long tile = ${ descriptor(view.second) } + ${ by_k(view.second) };
    wgmma_fence();
//% if view.mmas
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) ${ view.wgmma.function }(acc[i], fragments[i], tile);
//% else
    ${ view.wgmma.function }(acc, fragments[0], tile);
//% endif
    wgmma_commit();
}

${ blocks.release_stage() }
//% endmacro
//% macro products(view)
//% from view.ends import to_the_end
//% set count, words = view.mmas or "1", [4, view.depth // 16] | min
Accumulators acc = {};
Fragments fragments[2];  // of a step of k, and of the next one, which is made while the products of the first go on
int previous = 0;  // the stage that products under way may still read
//% call to_the_end(view)
//% call each_k_tile(view)
#pragma unroll
for (int at = 0; at < BK; at += CHUNK_K) {
    Scales scales[${ count }];
    Codes codes[${ count }][${ view.depth // 16 // words }];
    #pragma unroll
    for (int i = 0; i < ${ count }; ++i) {
        const unsigned* const chunk = shared.b[ring.stage][at / CHUNK_K][consumer${ " * %s + i" | format(view.mmas) if view.mmas else " + i" }];
        scales[i] = load_scales(chunk);
        #pragma unroll
        for (int j = 0; j < ${ view.depth // 16 // words }; ++j) codes[i][j] = reinterpret_cast<const Codes*>(chunk)[j * 128 + threadIdx.x % 128];
    }
    #pragma unroll
    for (int step = 0; step < CHUNK_K; step += K_STEP) {
        #pragma unroll
        for (int i = 0; i < ${ count }; ++i) numbers_of(codes[i][step / ${ 16 * words }].at[step / 16 % ${ words }], scales[i], fragments[step / K_STEP % 2][i]);
//% if view.cut_k
        if (k + at + step >= ${ k_end(view) }) clear_fragments(fragments[step / K_STEP % 2]);  // zeros of A times a scale of infinity would be NaN
//% endif
        multiply_step(shared, ring.stage, at + step, fragments[step / K_STEP % 2], acc);
        wgmma_wait<1>();  // for the step before, which reads the other fragments
        if (at + step == 0 && ${ later(view) }) release_stage(shared, previous);
    }
}
previous = ring.stage;
//% endcall
//% endcall
//% endmacro
