/*# A ring of k tiles between one warpgroup, which fills it by TMA, and those that multiply them by wgmma. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec, load_edge
//% from "device/ldmatrix.cu" import ldmatrix
//% from "device/raster.cu" import raster
//% from "device/tma.cu" import map_origin, tensor_map
//% from "device/warpgroup.cu" import first_lane
//% from "prepare/prepare.cu" import prepare
//% from "prepare/split.cu" import pieces, pair_of
//% from "wgmma/shared.cu" import ring, shared, thread_origin
//% from "wgmma/instructions.cu" import instructions
//% from "wgmma/stage.cu" import clear, fragments, multiply_stage, promote, release_stage
//% from "wgmma/split.cu" import split_k
//% from "wgmma/staged.cu" import stage_row, stage_transposed, staged_at
//% from "wgmma/rows.cu" import load_rows, staged_row_at, store_rows
//% from "wgmma/epilogue.cu" import sums_of_piece
//% from "wgmma/prologue.cu" import overview, prologue, work
//% from "wgmma/producer.cu" import produce
//% from "wgmma/consumer.cu" import consume
//% from "epilogue/linear.cu" import store_c as store_linear
//% from "epilogue/sums.cu" import load_sums
//% from "epilogue/tree.cu" import store_c as store_tree, store_c_at_once
//% set store_c = store_tree if kernel.epilogue else store_linear
//% set e = kernel.problem.epilogue
//% filter opened
${ header(kernel) }
namespace {

${ element_types(converts=false, reads_c=e.reads_c, halves=view.halves, adds=kernel.adds_integers, pieces=view.pieces) }${ tensor_map() }
${ shape(kernel, view.unread, offsets=view.reaches) }
${ tiling(kernel, "MN") }
//% if view.vectors or kernel.copies
${ vec() }
//% endif
//% if kernel.copies | selectattr("reads_edge") | list
${ load_edge() }
//% endif
${ shared(kernel, view) }
${ ring(view) }
//% if view.feeds
${ fragments(view) }
//% endif
//% if not view.direct
${ thread_origin(view) }
//% endif
${ raster(view.group, view.along) }
//% if view.pointers
${ map_origin() }
//% endif
//% if view.uniform
${ first_lane() }
//% endif
${ instructions(kernel, view) }
//% if view.limited
${ clear() }
//% endif
//% if view.pieces
${ pieces(view) }
${ pair_of(view) }
//% endif
${ multiply_stage(view) }
//% if view.in_flight
${ release_stage(view) }
//% endif
//% if view.promoted
${ promote(view) }
//% endif
//% if view.split
${ split_k(view) }
//% endif
//% if view.direct
${ staged_at(view) }
${ ldmatrix([(view.matrices, true)], [(view.matrices, true)]) ~ "\n" ~ stage_transposed(view) if view.swapped else stage_row(view) }
//% elif view.staged
${ sums_of_piece(view) }
${ staged_at(view) }
//% if view.at_once
${ store_c_at_once(kernel, view.edges) }
//% else
${ store_c(kernel, staged=true, edges=view.edges, whole=view.whole) }
//% endif
//% else
${ sums_of_piece(view) }
${ staged_row_at() }
${ store_c(kernel, shared=true, staged=true, edges=none if kernel.epilogue else []) }
//% if e.reads_c
${ load_rows(kernel, view.rows_unroll) }
//% endif
${ store_rows(kernel, view.row_access, view.rows_unroll) }
//% endif
//% if e.sums
${ load_sums(kernel) | trim("\n") }
//% endif
}  // namespace

//% if kernel.copies or kernel.sums
${ prepare(kernel.copies, kernel.sums) | trim("\n") }

//% endif
${ overview(view) }
${ signature(kernel, filled=true) }{
${ prologue(kernel, view) }
${ work(kernel, view) | trim("\n") }
${ produce(view) | indent(4, true) }
${ consume(kernel, view) | indent(4, true) | trim("\n") }
//% if view.cluster > 1
    cluster_sync();  // no block exits while another may arrive at its barriers
//% endif
//% if view.split
    cluster_wait();  // no block exits while another may read its sums
//% endif
//% if view.staged
    if (leads) tma_store_wait_read<0>();  // shared memory must outlast TMA's reads of it
//% endif
}
//% endfilter
