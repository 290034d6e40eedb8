/*# The first operand's fragments come from registers: its lines run across K. A step of k has its fragments loaded while products of
    the one before go on. #*/
//% from "wgmma/mainloop/k_tiles.cu" import each_k_tile
//% from "wgmma/range.cu" import later, stage_arguments
//% from "wgmma/layout.cu" import by_k, descriptor
//% set k_tiles, range_step = "(s.K + BK - 1) / BK", "BK"
//% macro types(view)
//% import view.product as product
//% set x, lines = view.first, product.lines
// Fragments of ${ x.X } that an instruction takes from this thread, for one step of k.
using Fragments = unsigned[${ view.mmas }][4];

// The first of the two neighbouring ${ lines } of ${ x.X } that this thread multiplies, of the 64 of an instruction. wgmma takes them as rows g and
// g + 8 of its warp's 16 (lane 4 g + t), but it does not matter which ${ lines } of ${ x.X } these are, as long as C's sums go to the same ones. This
// choice avoids bank conflicts: half a warp reads chunks of 16 bytes whose numbers differ in bits 0 and 2, so that neither loads of
// fragments, from four lines, nor stores of C, to every other one of eight lines, meet in a bank.
__device__ __forceinline__ int fragment_row()
{
    const int warp = threadIdx.x / 32 % 4, g = threadIdx.x % 32 / 4;
    const int chunk = (warp % 2 * 2 + g / 4) ^ (g / 2 % 2 * 5);
    return warp / 2 * 32 + chunk * 4 + g % 2 * 2;
}
//% endmacro
//% macro origin(product)
    return ${ product.origin("fragment_row()", "static_cast<int>(threadIdx.x) % 4 * 2") };
//% endmacro
//% macro functions(view)
//% import view.blocks as blocks
//% import view.product as product
//% set x = view.first
//% set E = factor[x.X]
// This thread's fragment of the 64 ${ product.lines } of ${ x.X } from `first` on in a tile: in lane 4 g + t two neighbours at k + t, and both at k + t + 4.
__device__ __forceinline__ void load_fragment(const ${ E }* tile, int first, int k, unsigned (&fragment)[4])
{
    const int row = fragment_row(), t = threadIdx.x % 4;
    const ${ E }* const lines = tile + ((first + row) / LINE_${ x.X } * BK + k + t) * LINE_${ x.X };
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int line = 4 * half + t;  // of the eight, after which a swizzle repeats: it permutes chunks of four elements
        const Vec<${ of[x.X] }2> two = load<2>(lines + 4 * half * LINE_${ x.X } + ((row % LINE_${ x.X } / 4) ^ line) * 4 + row % 4);
        fragment[2 * half] = __float_as_uint(two.at[0]);
        fragment[2 * half + 1] = __float_as_uint(two.at[1]);
    }
}

// acc += A * B for one step of k in a stage, the K_STEP from `k` on, and the ${ view.mmas } * 64 ${ product.lines } of ${ x.X } from `first` on:
// in flight until wgmma_wait, as is what the products read, `fragments` among it.
__device__ __forceinline__ void multiply_step(const Shared& shared, int stage, int first, int k, Fragments& fragments, Accumulators& acc)
{
    const unsigned long long tile = ${ descriptor(view.second) } + ${ by_k(view.second) };
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) load_fragment(shared.${ x.x }[stage], first + i * 64, k, fragments[i]);
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) ${ view.wgmma.function }(acc[i], fragments[i], tile);
    wgmma_commit();
}

${ blocks.release_stage() }
//% endmacro
//% macro products(view)
//% from view.ends import to_the_end
Accumulators acc = {};
Fragments fragments[2];  // of a step of k, and of the next one, which is loaded while the products of the first go on
//% if view.in_flight
int previous = 0;  // the stage that products under way may still read
//% call to_the_end(view)
//% call each_k_tile(view)
#pragma unroll
for (int step = 0; step < BK; step += K_STEP) {
    multiply_step(shared, ${ stage_arguments(view) }step, fragments[step / K_STEP % 2], acc);
    wgmma_wait<1>();  // for the step before, which reads the other fragments
    if (step == 0 && ${ later(view) }) release_stage(shared, previous);
}
previous = ring.stage;
//% endcall
//% endcall
//% else
//% call each_k_tile(view)
#pragma unroll
for (int step = 0; step < BK; step += K_STEP) {
    multiply_step(shared, ${ stage_arguments(view) }step, fragments[step / K_STEP % 2], acc);
    wgmma_wait<1>();  // for the step before, which reads the other fragments
}
wgmma_wait<0>();
release_stage(shared, ring.stage);
//% endcall
//% endif
//% endmacro
