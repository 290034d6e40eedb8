/*# The producer: one thread fills the ring, for each tile of C that the block computes, or all copy rows of A and one fills the rest. #*/
//% from "wgmma/prologue.cu" import matrix_of_block, tile_of_block
//% from "wgmma/fill.cu" import fill_stage
//% from "wgmma/images.cu" import place
//% import "wgmma/gather.cu" as gather
//% from "wgmma/range.cu" import interval_end, k_begin, k_end
//% macro produce(view)
//% import view.roles as roles
//% import view.schedule as schedule
//% import view.tiles as tiles
//% if view.gathered
if (threadIdx.x >= CONSUMERS * 128) {  // the producer: its threads copy rows of A, and one starts the copies of B
//% else
if (threadIdx.x >= CONSUMERS * 128) {  // the producer: one of its threads starts all copies
//% endif
//% if view.donates
    setmaxnreg_dec<PRODUCER_REGISTERS>();
//% endif
//% if view.gathered
    const bool loads = ${ roles.leads };
${ gather.start() | indent(4, true) }
//% else
${ schedule.leave_idle(roles) }
//% endif
//% filter indent(4, true)
//% call tiles.each_tile(view)
${ load_tile(view) }
//% endcall
//% if view.gathered
${ gather.finish() | trim("\n") }
//% endif
//% endfilter
    return;
}
//% endmacro
//% macro load_tile(view)
//% import view.schedule as schedule
${ tile_of_block(view) }${ gather.rows(view) if view.gathered else schedule.one_of_warp() }/*% if not view.pieces %*/
${ matrix_of_block(view) }${ schedule.end_of_range(view) }/*% endif %*/
//% for x in [view.a, view.b] if x.shared
const int part = rank * PART_${ x.X };  // the first line of ${ x.X } that this block brings, to the whole cluster
//% endfor
//% if view.a.images
${ place(view.a, "tile.m") | trim("\n") }
//% endif
//% if view.pointers
const MapOrigin origin_a = map_origin(A_array[matrix]), origin_b = map_origin(B_array[matrix]);
//% endif
//% for x in (view.a, view.b) if x.ragged
//% set lines = "min(B%s, (s.%s - tile.%s + 7) / 8 * 8)" | format(x.MN, x.MN, x.mn)
const int lines_${ x.x } = ${ "max(0, %s)" | format(lines) if view.cluster > 1 else lines };  // ${ x.extent } of the tile within ${ x.X }, rounded up to 8: TMA brings no others. What a stage holds beyond them is multiplied, too, but C has no ${ x.extent } for these sums
const TensorMap* const box_${ x.x } = lines_${ x.x }${ " - part < PART_" ~ x.X if x.shared else " < B" ~ x.MN } ? &map_${ x.x }_tail : &map_${ x.x };  // a box that ${ x.MN } cuts comes by a map of what is left of it
//% endfor
//% if view.pieces
for (int first = ${ k_begin(view) }; first < ${ k_end(view) }; first += INTERVAL) {
    for (int i = 0; i < PAIRS; ++i) {
        const Pair pair = pair_of(i);
        for (int k = first; k < ${ interval_end(view) }; k += BK, ring.advance()) {
${ load_k_tile(view) | indent(12, true) | trim("\n") }
        }
    }
}
//% else
for (int k = ${ k_begin(view) }; k < ${ k_end(view) }; k += BK, ring.advance()) {
${ load_k_tile(view) | indent(4, true) | trim("\n") }
}
//% endif
//% endmacro
//% macro load_k_tile(view)
//% if view.b.images
${ place(view.b, "k") | trim("\n") }
//% endif
mbarrier_wait(&shared.empty[ring.stage], ring.parity ^ 1);  // of the round before; the first passes
//% if view.gathered
if (loads) {
${ fill_stage(view) | indent(4, true) | trim("\n") }
}
${ gather.fill() | trim("\n") }
//% else
${ fill_stage(view) }
//% endif
//%- endmacro
