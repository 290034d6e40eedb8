/*# Weights whose lines run across C, on tensor cores: 8 lanes of a warp take neighbouring weights of DEPTH k, other lanes other k. #*/
//% from "device/packed.cu" import access
//% from "device/mma.cu" import mma
//% from "skinny/stream/across_packed.cu" import fetch, lines, output
//% from "skinny/stream/mma_sums.cu" import store_sums
//% set accumulators = "Accumulators acc"
//% macro stream(x, w, view)
${ mma((view.mma,)) }
using Chunk = ${ access(x, "XW") }[S / 8][DEPTH / XW];  // ${ x.X }'s part of a step in this thread's registers: [${ x.mn } / 8][k]
using Accumulators = ${ T }[S / 8][T / 2][4];  // by instructions: 8 lines of ${ x.X } times 16 ${ lines[w.X] } of ${ w.X }

// This thread's first weights, from the block's: lane 4 g + t takes vector g of 8 neighbours, at DEPTH k of number t of its warp.
__device__ __forceinline__ ThreadOrigin thread_origin()
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    return {(warp * 4 + lane % 4) * DEPTH, lane / 4 * VW};
}

${ output(w) }
${ fetch(w, view) }
//% endmacro

/*# What follows the small operand's functions. #*/
//% macro products(x, w, view)
// Element i of two vectors, which are neighbours along k, as a register of a fragment.
__device__ __forceinline__ unsigned two_k(const ${ access(w, "VW") }& first, const ${ access(w, "VW") }& second, int i)
{
    return __byte_perm(first.words[i / 2], second.words[i / 2], i % 2 ? 0x7632 : 0x5410);
}

// acc += the products of a step. Which k, and which ${ lines[w.X] }, an instruction calls its own is free while both operands, and the
// stores, agree: a lane's are those that its loads brought.
__device__ __forceinline__ void mma(const Chunk& chunk, int, const ${ access(w, "VW") } (&weights)[LOADS], Accumulators& acc)
{
    constexpr int VECTORS = T / VW;  // of a lane at one k
    #pragma unroll
    for (int k = 0; k < DEPTH; k += 4) {
        #pragma unroll
        for (int j = 0; j < T / 2; ++j) {
            const ${ access(w, "VW") }* const vector = &weights[k * VECTORS + j / (VW / 2)];  // the first of four k
            const int upper = j % (VW / 2), lower = upper + VW / 2;  // its elements in rows g and g + 8
            const unsigned a[] = {
                two_k(vector[0], vector[VECTORS], upper), two_k(vector[0], vector[VECTORS], lower),
                two_k(vector[2 * VECTORS], vector[3 * VECTORS], upper), two_k(vector[2 * VECTORS], vector[3 * VECTORS], lower)};
            #pragma unroll
            for (int i = 0; i < S / 8; ++i) {
                const unsigned b[] = {two_k(chunk[i], k), two_k(chunk[i], k + 2)};
                ${ view.mma.function }(acc[i][j], a, b);
            }
        }
    }
}

//% call store_sums("T / 2")
            for (int v = 0; v < 4; ++v) {
                const int of_vector = j % (VW / 2) + v / 2 * (VW / 2);
                sums[warp][8 * i + line + v % 2][thread.${ w.mn } + output(j / (VW / 2) * VW + of_vector)] = acc[i][j][v];
            }
//% endcall
//% endmacro
