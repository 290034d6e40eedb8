/*# Skeleton of the kernels on tensor cores: shared tiles of operands' own elements, swizzled, fragments, accumulators. A schedule
    extends it and fills `k_tiles`. #*/
//% extends "tiled.cu"
//% from "device/convert.cu" import element_types, tf32
//% from "device/vec.cu" import vec
//% from "device/warp_origin.cu" import warp_origin
//% from "device/ldmatrix.cu" import ldmatrix
//% from "device/mma.cu" import mma as mma_function
//% from "copy/swizzle.cu" import swizzle
//% from "layout.cu" import at, to_k, to_mn
//% from "mma/ldmatrix_pairs.cu" import unzip
//% from "mma/tensor.cu" import column_of, declare_summed, exchange, fragment_of
//% block elements
${ element_types(converts=false, reads_c=kernel.problem.epilogue.reads_c, halves=view.halves, adds=kernel.adds_integers) }
//%- endblock
//% block types
${ vec() }
using TileA = ${ TA }${ at(view.a.along_k, "BM", "BK") };  // A's tile in shared memory, its lines as in global memory
//% if view.b.codes
using TileB = unsigned[BK / CHUNK_K][ROW_WORDS];  // chunks of B's packed codes, as they lie in global memory
//% else
using TileB = ${ TB }${ at(view.b.along_k, "BN", "BK") };  // B's, likewise
//% endif
using Accumulators = ${ "unsigned" if view.halves else T }[MMAS_M][MMAS_N][${ view.registers }];  // this thread's sums, by instructions of its warp

/*% endblock %*/
//% block origin
${ warp_origin(view) }
//% endblock
//% block access
//% block copies
//% endblock
${ ldmatrix(view.loads) }
//% if view.a.pairs or view.b.pairs
${ unzip() }
//% endif
${ mma_function(view.instructions) }
//% if view.exchanges
${ exchange(view) }
//% endif
//% if view.rounds
${ tf32() }
//%- endif
//% if view.a.swizzled
${ swizzle(view.a) }
//% if not view.b.codes
${ swizzle(view.b, alike=view.a.by_ldmatrix == view.b.by_ldmatrix) }
//% endif
//% endif
//% endblock
//% block operand_tiles
//% if view.b.codes
    const ${ TA }* a_tile = A + ${ to_mn(view.a, "tile.m") }${ " + " ~ to_k(view.a, "begin") if kernel.launch.adds_up };
    const Offset a_step = ${ to_k(view.a, "BK") };  // to the next tile along K
    const Offset b_step = Offset(BK / CHUNK_K) * chunks_across(s) * CHUNK_WORDS;
    const int* b_tile = prepared_b + tile.n / 64 * CHUNK_WORDS${ " + begin / BK * b_step" if kernel.launch.adds_up };
//% elif view.a.conv
    Pixels a_tile = pixels_of_tile(A, s, tile.m, ${ "begin" if kernel.launch.adds_up else "0" });
    const ${ TB }* b_tile = B + ${ to_mn(view.b, "tile.n") }${ " + " ~ to_k(view.b, "begin") if kernel.launch.adds_up };
    const Offset b_step = ${ to_k(view.b, "BK") };  // to the next tile along K
//% else
${ super() }
//%- endif
//% endblock
//% block accumulators
    const WarpOrigin warp = warp_origin();
    Accumulators acc = {}${ ", totals = {}" if view.promoted };
${ declare_summed(kernel) }
//%- endblock
//% block main_loop
/*% block k_tiles required %*/
/*% endblock %*/

    ${ T } sums[TM][TN];
    rows_of(${ "totals" if view.promoted else "acc" }, sums);
//% if view.exchanges
    #pragma unroll
    for (int i = 0; i < TM; ++i) exchange(sums[i]);
//% endif
//% if "row_sum" in kernel.problem.epilogue.sums
    ${ T } row_sums[TM];
    #pragma unroll
    for (int i = 0; i < TM; ++i) row_sums[i] = row_sum_acc[i / 2][i % 2 * 2];  // the same in every column
//% endif
//% if "column_sum" in kernel.problem.epilogue.sums
    ${ T } column_sums[TN];
    #pragma unroll
    for (int j = 0; j < TN; ++j) column_sums[j] = column_sum_acc[${ fragment_of(view) }][${ column_of(view) }];  // and in every row
//% if view.exchanges
    exchange(column_sums);
//% endif
//% endif
//% endblock
