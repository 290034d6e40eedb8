/*# Tensor cores by WMMA: a k tile is copied to shared memory element by element, then multiplied, then the next one copied. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature, matrices_of
//% from "layout.cu" import at, beyond, to
//% from "device/convert.cu" import element_types
//% from "device/wmma.cu" import wmma
//% from "epilogue/result.cu" import result, narrowed
//% from "device/raster.cu" import tile_rows, tile_columns
//% from "epilogue/tree.cu" import epilogue, applied_at, declare_outputs, inputs, store_outputs
/*# global -> shared: a tile as it lies in global memory. #*/
//% macro copy(x)
//% set mn_edge, k_edge = x.MN in kernel.edges, "K" in kernel.edges
//% set contiguous, lines = ("BK", "B" ~ x.MN) if x.along_k else ("B" ~ x.MN, "BK")
// This thread's elements of ${ x.X }'s tile from `${ x.mn }` and `k` on, neighbours' side by side; beyond an edge there are zeros.
__device__ __forceinline__ void copy_${ x.x }(const ${ element[x.X] }* ${ x.X }, Shape s, int tile_${ x.mn }, int tile_k, Tile${ x.X }& shared)
{
    for (int i = threadIdx.x; i < ${ lines } * ${ contiguous }; i += THREADS) {
        const int line = i / ${ contiguous }, at = i % ${ contiguous };
        const int ${ x.mn } = tile_${ x.mn } + ${ "line" if x.along_k else "at" }, k = tile_k + ${ "at" if x.along_k else "line" };
//% set from = "%s[%s]" | format(x.X, to(x, x.mn, "k"))
//% set inside = [x.mn ~ " < s." ~ x.MN] * mn_edge + ["k < s.K"] * k_edge
        shared[line][at] = ${ "%s ? %s : %s{}" % (inside | join(" && "), from, element[x.X]) if inside else from };
    }
}
//% endmacro
//% set a, b = view.a, view.b
${ header(kernel) }
namespace {

${ element_types(converts=false, reads_c=kernel.problem.epilogue.reads_c, adds=kernel.adds_integers) }${ shape(kernel) }
${ tiling(kernel, "MNK") }
using TileA = ${ TA }[${ "BM" if a.along_k else "BK" }][PITCH_A];  // A's tile in shared memory: ${ at(a.along_k, "m", "k") }
using TileB = ${ TB }[${ "BN" if b.along_k else "BK" }][PITCH_B];  // B's tile in shared memory: ${ at(b.along_k, "n", "k") }

${ wmma(view.wmma) }
${ copy(a) }
${ copy(b) }
//% if kernel.epilogue
${ epilogue(kernel) }
//% endif
}  // namespace

${ signature(kernel) }{
    __shared__ __align__(32) TileA As;
    __shared__ __align__(32) TileB Bs;
    __shared__ __align__(32) float sums[WARPS][16][PITCH_SUMS];  // a fragment of each warp, on its way to C
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
    const int columns = ${ tile_columns };  // of tiles
//% if kernel.problem.batched
    const int rows = ${ tile_rows };
    const int matrix = blockIdx.x / (rows * columns);
${ matrices_of(kernel, "matrix") }    const int tile_m = blockIdx.x / columns % rows * BM, tile_n = blockIdx.x % columns * BN;
//% else
    const int tile_m = blockIdx.x / columns * BM, tile_n = blockIdx.x % columns * BN;
//% endif
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;  // the warp's place in the tile

    Accumulator acc[FRAGMENTS_M][FRAGMENTS_N] = {};
    for (int k = 0; k < s.K; k += BK) {
        copy_a(A, s, tile_m, k, As);
        copy_b(B, s, tile_n, k, Bs);
        __syncthreads();  // the k tile is complete
        #pragma unroll
        for (int step = 0; step < BK; step += 16) {
            FragmentA a[FRAGMENTS_M];
            FragmentB b[FRAGMENTS_N];
            #pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) wmma_load_a_${ view.wmma.a }(a[i], &As${ at(a.along_k, "warp_m + 16 * i", "step") }, PITCH_A);
            #pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) wmma_load_b_${ view.wmma.b }(b[j], &Bs${ at(b.along_k, "warp_n + 16 * j", "step") }, PITCH_B);
            #pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) {
                #pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) ${ view.wmma.function }(acc[i][j], a[i], b[j]);
            }
        }
        __syncthreads();  // no thread reads the k tile any more
    }

//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel) };
//% endif
    #pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
        #pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) {
            wmma_store(sums[warp][0], acc[i][j], PITCH_SUMS);
            __syncwarp();  // other lanes' sums are there, too
            for (int element = lane; element < 16 * 16; element += 32) {
                const int row = element / 16, column = element % 16;
                const int m = tile_m + warp_m + 16 * i + row, n = tile_n + warp_n + 16 * j + column;
//% if beyond(kernel.edges)
                if (${ beyond(kernel.edges) }) continue;
//% endif
                const ${ T } acc_mn = sums[warp][row][column];
                ${ TC }* const to = C + Offset(m) * s.ldc + n;
//% if kernel.epilogue
//% if kernel.outputs
${ declare_outputs(kernel.problem.epilogue) | indent(16, true) | trim("\n") }
//% endif
                *to = ${ narrowed(applied_at(kernel, "m", "n", "acc_mn", "*to")) };
//% if kernel.outputs
${ store_outputs(kernel.problem.epilogue, "m", "n") | indent(16, true) | trim("\n") }
//% endif
//% else
                *to = ${ result("acc_mn", "*to") };  // beta = 0 leaves C unread
//% endif
            }
            __syncwarp();  // no lane reads these sums any more
        }
    }
}
