/*# A ring of k tiles between one warpgroup, which fills it by TMA, and those that multiply them by wgmma.

    What varies is chosen by path: how many tiles a block computes (tiles/) and which (schedule/), what it shares with others (blocks/), how k tiles are
    multiplied (mainloop/) and their products awaited (ends/), how many instructions a consumer's tile has (mmas/), whether they
    multiply to C or its transpose (product/), and how C is stored (store/, moves/, boxes/). #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import element_types
//% from "device/vec.cu" import vec, load_edge
//% from "device/tma.cu" import map_origin, tensor_map
//% from "prepare/prepare.cu" import prepare
//% from "wgmma/shared.cu" import ring, shared
//% from "wgmma/instructions.cu" import instructions
//% from "wgmma/images.cu" import functions as images
//% from "wgmma/gather.cu" import functions as gather
//% from "wgmma/stage.cu" import clear
//% from "wgmma/prologue.cu" import prologue, work
//% from "wgmma/producer.cu" import produce
//% from "wgmma/consumer.cu" import consume
//% from "epilogue/sums.cu" import load_sums
//% import view.blocks as blocks
//% import view.mainloop as mainloop
//% import view.roles as roles
//% import view.schedule as schedule
//% import view.store as store
//% import view.tiles as tiles
${ header(kernel) }
namespace {

${ element_types(converts=false, reads_c=kernel.problem.epilogue.reads_c, halves=view.halves, adds=kernel.adds_integers, pieces=view.pieces) }${ tensor_map() }
${ shape(kernel, view.unread, offsets=view.reaches) }
${ tiling(kernel, "MN") }
//% if view.vectors or kernel.copies | rejectattr("way", "eq", "pack") | list
${ vec() }
//% endif
//% if kernel.copies | selectattr("reads_edge") | list
${ load_edge() }
//% endif
${ shared(kernel, view) }
${ ring(view) }
${ mainloop.types(view) }
${ store.origin(view) }
${ schedule.functions(view) }
//% if view.pointers
${ map_origin() }
//% endif
${ roles.first_lane() }
${ instructions(kernel, view) }
//% if view.conv
${ images(view) }
//% endif
//% if view.gathered
${ gather(view) }
//% endif
//% if view.limited
${ clear() }
//% endif
${ mainloop.functions(view) }
${ blocks.functions(view) }
${ store.functions(kernel, view) }
${ load_sums(kernel) | trim("\n") }
}  // namespace

//% if kernel.copies or kernel.sums
${ prepare(kernel.copies, kernel.sums) }
//% endif

${ tiles.overview() | trim("\n") }
//% if view.gathered
// All threads of the producer copy rows of A to the stage, too, and each arrives at full[stage] once its copies have landed.
//% endif
${ signature(kernel) }{
${ prologue(kernel, view) }
${ work(kernel, view) | trim("\n") }
${ produce(view) | indent(4, true) }
${ consume(kernel, view) | indent(4, true) | trim("\n") }
${ blocks.leave() }${ store.leave(view) }}
