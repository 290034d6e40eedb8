/*# B of codes: threads dequantise it into registers, wgmma's first operand, for C^T = B^T A^T. #*/
//% import "wgmma/mainloop/awaited.cu" as awaited
//% from "device/codes.cu" import numbers, scales, words
//% from "wgmma/layout.cu" import by_k, descriptor
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/range.cu" import k_end, later, sums_of_mma
//% set origin = awaited.origin
//% set k_tiles, range_step = awaited.k_tiles, awaited.range_step
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
${ words(view.codes) }
using ChunkOfThread = Codes[CHUNK_K / ${ view.codes.span }];  // of its two columns

// Elements of B that an instruction takes from this thread, for one step of k: a pair in each register.
using Fragment = unsigned[4];
using Fragments = Fragment${ "[%s]" | format(view.mmas) if view.mmas };

//% endmacro
//% macro functions(view)
//% import view.blocks as blocks
${ scales(view.codes) }
// Load this thread's codes of a chunk: those of a warpgroup's threads lie side by side.
__device__ __forceinline__ void load_codes(const unsigned* chunk, ChunkOfThread& codes)
{
    #pragma unroll
    for (int i = 0; i < CHUNK_K / ${ view.codes.span }; ++i) codes[i] = reinterpret_cast<const Codes*>(chunk)[i * 128 + threadIdx.x % 128];
}

${ numbers(view.codes) }
// acc += A * B for one step of k in a stage. Asynchronous: until wgmma_wait nothing may overwrite the stage, or `fragments`.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int k, const Fragments& fragments, Accumulators& acc${ ", bool adds" if view.promoted })
{
    const unsigned long long a = ${ descriptor(view.second) } + ${ by_k(view.second) };
    wgmma_fence();
//% filter indent(4, true)
//% call all(view)
${ view.wgmma.function }(acc${ of(view) }, fragments${ of(view) }, a${ ", adds" if view.promoted });
//% endcall
//% endfilter
    wgmma_commit();
}

${ blocks.release_stage() }
//% if view.promoted
using ChunkScales = Scales${ "[%s]" | format(view.mmas) if view.mmas };

// Keep the compiler from reading sums before the wait that precedes this call. To it they are final once a product is issued, and it may
// copy them to other registers while that product is still in flight.
__device__ __forceinline__ void settle(Accumulators& acc)
{
//% filter indent(4, true)
//% call all(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) asm volatile("" : "+f"(acc${ of(view) }[r]) :: "memory");
//% endcall
//% endfilter
}

// Add the sums of a chunk's k, times the scale of their column of B, to totals: of rows g and g + 8 of a warp's 16 (lane 4 g + t).
__device__ __forceinline__ void promote(const Accumulators& acc, const ChunkScales& scales, Accumulators& totals)
{
//% filter indent(4, true)
//% call all(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) totals${ of(view) }[r] = fmaf(scales${ of(view) }.scale[r / 2 % 2], acc${ of(view) }[r], totals${ of(view) }[r]);
//% endcall
//% endfilter
}

//% endif
//% endmacro
//% macro products(view)
//% from view.ends import to_the_end
//% set array = "[%s]" | format(view.mmas) if view.mmas
//% set chunk = "shared.b[ring.stage][at / CHUNK_K][consumer%s]" | format(" * %s + i" | format(view.mmas) if view.mmas)
//% set which = "[at / CHUNK_K % 2]" if view.promoted
//% if view.promoted
Accumulators acc[2] = {}, totals = {};  // double-buffered: the sums of a chunk are promoted while the next one is multiplied
ChunkScales scales[2] = {};
//% else
Accumulators acc = {};
//% endif
Fragments fragments[2];  // double-buffered: a step is dequantised while wgmma reads the one before
const int own_column = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;  // this thread's first column of a chunk; its second is 8 behind
int previous = 0;  // the stage that products in flight may still read
//% call to_the_end(view)
//% call each_k_tile(view)
#pragma unroll
for (int at = 0; at < BK; at += CHUNK_K) {
//% if not view.promoted
    Scales scales${ array };
//% endif
    ChunkOfThread codes${ array };
//% filter indent(4, true)
//% call all(view)
scales${ which }${ of(view) } = load_scales(${ chunk }, own_column);
load_codes(${ chunk }, codes${ of(view) });
//% endcall
//% endfilter
    #pragma unroll
    for (int step = 0; step < CHUNK_K; step += K_STEP) {
        Fragments& fragment = fragments[step / K_STEP % 2];
//% filter indent(8, true)
//% call all(view)
dequantise(codes${ of(view) }[step / ${ view.codes.span }].at[step / 16 % ${ view.codes.steps }], scales${ which }${ of(view) }, fragment${ of(view) });
//% if view.cut_k
#pragma unroll
for (int r = 0; r < 4; ++r)  // beyond K: zeros of A times a scale of infinity would be NaN
    if (k + at + step >= ${ k_end(view) }) fragment${ of(view) }[r] = 0;
//% endif
//% endcall
//% endfilter
//% if view.promoted
        if (step == 0) {
            wgmma_wait<0>();  // for the chunk before: ptxas serialises products whose sums are read behind wgmma_wait<1>
            settle(acc[1 - at / CHUNK_K % 2]);
        }
        multiply_step(shared, ${ "first_lane(ring.stage)" if view.uniform else "ring.stage" }, at + step, fragment, acc${ which }, step > 0);
        if (at + step == 0 && ${ later(view) }) release_stage(shared, previous);
        if (step == 0) {
            promote(acc[1 - at / CHUNK_K % 2], scales[1 - at / CHUNK_K % 2], totals);  // adds zeros at the first chunk
            settle(totals);  // here, not once those registers hold sums in flight again
        } else {
            wgmma_wait<1>();  // for the step before, which reads the other fragments
        }
//% else
        multiply_step(shared, ${ "first_lane(ring.stage)" if view.uniform else "ring.stage" }, at + step, fragment, acc);
        wgmma_wait<1>();  // for the step before, which reads the other fragments
        if (at + step == 0 && ${ later(view) }) release_stage(shared, previous);
//% endif
    }
}
previous = ring.stage;
//% endcall
//% endcall
//% if view.promoted
settle(acc[1]);
promote(acc[1], scales[1], totals);
//% endif
//% endmacro
