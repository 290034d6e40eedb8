/*# Weights whose lines run along k, on tensor cores: the warps of a block take the same T rows or columns, each at other k. #*/
//% from "device/packed.cu" import access
//% from "device/mma.cu" import mma
//% from "skinny/edge/end.cu" import weights_exist
//% from "skinny/stream/along_k.cu" import lines
//% from "skinny/stream/mma_sums.cu" import store_sums
//% set accumulators = "Accumulators acc"
//% macro stream(x, w, view)
//% import view.weights as weights
//% set left = {true: "end - k", false: "VW"}
${ mma((view.mma,)) }
using Chunk = ${ access(x, "XW") }[S / 8][VW / XW];  // ${ x.X }'s part of a step in this thread's registers: [${ x.mn } / 8][k]
using Accumulators = ${ T }[S / 8][T / 16][4];  // by instructions: 8 lines of ${ x.X } times 16 of ${ w.X }

// This thread's first weights, from the block's: lane 4 g + t takes vector t of its warp's four, in line g and every 8th after it.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp * 4 + lane % 4) * VW, lane / 4};
}

// Start the loads of one step: VW k from `k` on of every 8th of the ${ lines[w.X] } of ${ w.X }, zeros from k = `end` on.
__device__ __forceinline__ void fetch(const ${ element[w.X] }* ${ w.X }, Shape s, int k, int end, int ${ w.mn }, ${ weights.weights(w) })
{
    #pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        const bool exists = ${ weights_exist("k", w.mn ~ " + 8 * i", w, view) };
        const int valid = exists ? ${ left[view.partial] } : 0;
        ${ weights.start(w, "i", w.X ~ " + Offset(" ~ w.mn ~ " + 8 * i) * s." ~ w.ld ~ " + k", view) }    }
${ weights.commit() }}
//% endmacro

/*# What follows the small operand's functions. #*/
//% macro products(x, w, view)
// acc += the products of a step: weights are the instruction's 16 rows (a), the small operand its 8 columns (b). The
// order of k is free if both agree: a lane passes the neighbouring k that its loads brought, four to each instruction.
__device__ __forceinline__ void mma(const Chunk& chunk, int, const ${ access(w, "VW") } (&weights)[LOADS], Accumulators& acc)
{
    #pragma unroll
    for (int k = 0; k < VW; k += 4) {
        #pragma unroll
        for (int i = 0; i < S / 8; ++i) {
            const unsigned b[] = {two_k(chunk[i], k), two_k(chunk[i], k + 2)};
            #pragma unroll
            for (int j = 0; j < T / 16; ++j) {
                const auto &upper = weights[2 * j].words, &lower = weights[2 * j + 1].words;
                const unsigned a[] = {upper[k / 2], lower[k / 2], upper[k / 2 + 1], lower[k / 2 + 1]};
                ${ view.mma.function }(acc[i][j], a, b);
            }
        }
    }
}

//% call store_sums("T / 16")
            for (int v = 0; v < 4; ++v) sums[warp][8 * i + line + v % 2][thread.${ w.mn } + 16 * j + v / 2 * 8] = acc[i][j][v];
//% endcall
//% endmacro
