/*# Threads apply the epilogue to pieces of C, which TMA stores from shared memory. #*/
//% from "wgmma/store/sums.cu" import piece_of_sums, sums_of_piece, thread_origin
//% from "epilogue/sums.cu" import sums as sums_taken
//% from "epilogue/extent.cu" import left
//% import "wgmma/store/tma.cu" as tma
//% set member, leave, origin = tma.member, tma.leave, thread_origin
//% macro functions(kernel, view)
//% import view.epilogue as epilogue
${ sums_of_piece(view) }
${ tma.staged_at(view) }
${ epilogue.store_c(kernel, staged=true, edges=view.edges, whole=view.whole) }
//% endmacro
//% macro places(view)
${ tma.leads(view) | trim("\n") }
const ThreadOrigin thread = thread_origin();
${ tma.parity(view) | trim("\n") }
//% endmacro
//% macro store_piece(kernel, view, inputs)
//% import view.epilogue as epilogue
//% import view.matrices as matrices
//% import view.schedule as schedule
${ piece_of_sums(view) | trim("\n") }
${ tma.take(view) | trim("\n") }
${ inputs }store_c(c, s${ left(view.edges, "m", "n", schedule.ends) }, thread, sums${ matrices.further(view) }${ sums_taken(kernel) }, ${ epilogue.arguments });
${ tma.send(view) | trim("\n") }
//% endmacro
