/*# Skeleton of the kernels that tile through shared memory: header, constants, device functions, kernel.
    A schedule extends it and fills `main_loop`; the family names the copy, fragment and compute files. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "layout.cu" import at, to_k, to_mn
//% from "prepare/prepare.cu" import prepare
//% from "signature.cu" import signature, matrices_of
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec, load_edge
//% from "device/raster.cu" import raster, tile_rows, tile_columns
//% from "device/thread_origin.cu" import thread_origin
//% from "device/dependent_launch.cu" import dependent_launch, overlap
//% from "device/dynamic_shared.cu" import dynamic_shared
//% from "device/slices.cu" import add_slices
//% from "device/split.cu" import split_k
//% from "device/stream_k.cu" import stream_k
//% from view.a.copy import copy as copy_a
//% from view.b.copy import copy as copy_b
//% from view.a.fragment import fragment as fragment_a
//% from view.b.fragment import fragment as fragment_b
//% from view.compute import mma
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/sums.cu" import declare_sums, sums
//% from "epilogue/tree.cu" import inputs, store_c as store_tree
//% set store_c = store_tree if kernel.epilogue else store_linear
//% set factors = "e" if kernel.epilogue else "alpha, beta"
/*# How many k a block sums over. #*/
//% set K = "extent" if kernel.launch.adds_up else "s.K"
/*# The reduced sums go to C row by row: they take no registers beside the accumulators, whose allocation serves the FMAs. #*/
//% macro add_rows(where, rows, columns)
//% for name in kernel.problem.epilogue.sums
reduce_partials(fixup, TM * TN${ " + TM" if loop.index > 1 }, ${ name }s);
//% endfor
//% set column_amax = "column_amax" in kernel.outputs
//% if column_amax
Magnitude column_amaxs[TN] = {};
//% endif
#pragma unroll${ " 1" if view.loops_fixup }
for (int i = 0; i < ${ rows }; ++i) {
    ${ T } row[TN];
    reduce_partials(fixup, i * TN, row);
    store_row(${ where }, i, row${ sums(kernel) | replace("row_sums", "row_sums[i]") }, ${ factors }${ ", column_amaxs" if column_amax });
}
//% if column_amax
raise_column_amaxs(e${ columns }, thread, column_amaxs);
//% endif
//% endmacro
/*# The sums of A and B of a shared tile go behind those of its elements. #*/
//% macro store_summed()
//% for name in kernel.problem.epilogue.sums
store_sums(${ name }s, TM * TN${ " + TM" if loop.index > 1 }, fixup);
//% endfor
//% endmacro
${ header(kernel) }
namespace {

/*% block elements %*/
${ element_types(reads_c=kernel.problem.epilogue.reads_c) }
/*%- endblock %*/
${ shape(kernel, ["ldb"] if kernel.copies else ()) }
${ tiling(kernel, "MNK") }
/*% block types %*/
${ vec() }
// An element of A's or B's tile: row or column mn of C's tile, and k.
struct Coord {
    int mn, k;
};

using TileA = ${ T }[SHARED_A / PITCH_A][PITCH_A];  // A's tile in shared memory: ${ at(not view.a.k_rows, "m", "k") }
using TileB = ${ T }[SHARED_B / PITCH_B][PITCH_B];  // B's tile in shared memory: ${ at(not view.b.k_rows, "n", "k") }

/*% endblock %*/
/*% block device %*/
${ raster() }
/*% block origin %*/
${ thread_origin(view.warped, view.slices) }
/*% endblock %*/
//% if kernel.launch.shared_bytes
${ dynamic_shared() }
//% endif
//% if kernel.dependent
${ dependent_launch() }
//% endif
//% if kernel.launch.splits > 1
${ split_k(kernel, "BK") }
//% elif kernel.launch.stream
${ stream_k(kernel) }
//% endif
//% if view.slices > 1
${ add_slices() }
//% endif
/*% block access %*/
//% if view.a.at_edge or view.b.at_edge
${ load_edge() }
//% endif
/*% endblock %*/
${ copy_a(view.a) }
${ copy_b(view.b) }
//% if view.outer
${ fragment_a(view.a) }
${ fragment_b(view.b) }
//% endif
/*% block compute %*/
${ mma(view, kernel) }
/*% endblock %*/
${ store_c(kernel, view.a.moves, view.b.moves, view.slices > 1, kernel.launch.splits > 1) }
/*% endblock %*/
}  // namespace

//% if kernel.copies
${ prepare(kernel.copies) }
//% endif
${ signature(kernel) }{
/*% block body %*/
//% if kernel.dependent
${ overlap() | trim("\n") }
//% endif
//% if kernel.launch.shared_bytes
    TileA* const As = reinterpret_cast<TileA*>(dynamic_shared());
    TileB* const Bs = reinterpret_cast<TileB*>(As + STAGES);
//% else
    __shared__ __align__(16) TileA As[STAGES];
    __shared__ __align__(16) TileB Bs[STAGES];
//% endif
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% if kernel.drops_alpha
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
//% set number = "blockIdx.x / SPLIT" if kernel.launch.splits > 1 else "unit.tile" if kernel.launch.stream else "blockIdx.x"
//% if kernel.launch.stream
    const StreamK schedule = stream_k_schedule(s);
    for (WorkUnit unit = work_unit_of_block(schedule); unit.k_tiles > 0;) {
        const int k_tiles = min(unit.k_tiles, schedule.k_tiles - unit.k_tile);  // of this tile
        const int begin = unit.k_tile * BK, extent = min(s.K - begin, k_tiles * BK);  // of K, which this block sums
//% endif
//% filter indent(4 if kernel.launch.stream else 0, true)
//% if kernel.problem.batched
    const int tiles = (${ tile_rows }) * (${ tile_columns });  // of a matrix of the batch
    ${ "%-64s" | format("const int matrix = " ~ number ~ " / tiles;") }  // the block's
//% set number = number ~ " % tiles"
${ matrices_of(kernel, "matrix").rstrip() }
//% endif
//% if view.a.moves or view.b.moves
    const TileOrigin nominal = tile_of_block(s, ${ number });
    // A tile that would cross an edge of C moves back until it ends there: copies need no predicates, and what overlaps
    // another tile is not stored.
    const TileOrigin tile = {${ "min(nominal.m, s.M - BM)" if view.a.moves else "nominal.m" }, ${ "min(nominal.n, s.N - BN)" if view.b.moves else "nominal.n" }};
//% else
    const TileOrigin tile = tile_of_block(s, ${ number });
//% endif
//% if kernel.launch.splits > 1
    const auto [begin, end] = split_k_range(s.K, blockIdx.x % SPLIT);
    const int extent = end - begin;  // of K, which this block sums
//% endif
    const ThreadOrigin thread = thread_origin();
//% set rows, columns = "M" in kernel.edges and not view.a.moves, "N" in kernel.edges and not view.b.moves
//% if rows or columns
    const int ${ (["rows = s.M - tile.m"] * rows + ["columns = s.N - tile.n"] * columns) | join(", ") };  // from the tile's origin to the edge of C
//% endif
/*% block operand_tiles %*/
//% for x in (view.a, view.b)
    const ${ element[x.X] }* ${ x.x }_tile = ${ x.X } + ${ to_mn(x, "tile." ~ x.mn) }${ " + " ~ to_k(x, "begin") if kernel.launch.adds_up };
//% endfor
    const Offset a_step = ${ to_k(view.a, "BK") };  // to the next tile along K
    const Offset b_step = ${ to_k(view.b, "BK") };
/*% endblock %*/
/*% block accumulators %*/
    ${ T } acc[TM][TN] = {};
//% if kernel.problem.epilogue.sums
${ declare_sums(kernel) | indent(4, true) | trim("\n") }
/*% endif %*/
/*% endblock %*/

/*% block main_loop required %*/
/*% endblock %*/

//% if view.slices > 1
    ${ T } sums[ROWS][TN];
    add_slices(acc, sums, reinterpret_cast<${ T }*>(As));
//% endif
//% set results, count = ("sums", "ROWS") if view.slices > 1 else (view.sums, "TM")
//% set given = results ~ sums(kernel)
    ${ TC }* const c_tile = C + Offset(tile.m) * s.ldc + tile.n;
//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel, "tile.m", "tile.n") };
//% endif
//% set end = (", nominal.n - tile.n" if view.b.moves else ", columns" if columns) ~ ""
//% set where = "c_tile, s" ~ (", nominal.m - tile.m" if view.a.moves else ", rows" if rows) ~ end ~ ", thread"
//% if kernel.launch.splits > 1
    const Fixup fixup = split_k_fixup(partials, semaphores);
//% if kernel.problem.epilogue.sums
${ store_summed() | indent(4, true) | trim("\n") }
//% endif
    if (!store_partial<${ count } * TN>(&${ results }[0][0], fixup)) return;
${ add_rows(where, count, end) | indent(4, true) | trim("\n") }
//% elif kernel.launch.stream
    const Fixup fixup = stream_k_fixup(schedule, unit.tile, partials, semaphores);
    if (fixup.peers == 1) {
        store_c(${ where }, ${ given }, ${ factors });
//% if kernel.problem.epilogue.sums
    } else {
${ store_summed() | indent(8, true) | trim("\n") }
        if (store_partial<${ count } * TN>(&${ results }[0][0], fixup)) {
${ add_rows(where, count, end) | indent(12, true) | trim("\n") }
        }
    }
//% else
    } else if (store_partial<${ count } * TN>(&${ results }[0][0], fixup)) {
${ add_rows(where, count, end) | indent(8, true) | trim("\n") }
    }
//% endif
//% else
    store_c(${ where }, ${ given }, ${ factors });
//% endif
//% endfilter
//% if kernel.launch.stream
        // Only stream blocks go on, from a tile with peers: store_partial's barrier has ended the use of As and Bs.
        unit = {unit.tile + 1, schedule.owner_k_tiles, unit.k_tiles - k_tiles};
    }
//% endif
/*% endblock %*/
}
