/*# Sums to C, piece by piece. #*/
//% from "epilogue/sums.cu" import load_of_piece
//% macro store_pieces(kernel, view)
//% import view.blocks as blocks
//% import view.each as mmas
//% import view.product as product
//% import view.store as store
//% call mmas.each_mma(view)
#pragma unroll
//% call product.pieces(view, blocks, mmas.first_line(view))
${ store.store_piece(kernel, view, inputs(kernel, view)) }
//% endcall
//% endcall
//% endmacro
/*# What the epilogue takes for a piece, beside sums of products. #*/
//% macro inputs(kernel, view)
//% import view.epilogue as epilogue
//% import view.schedule as schedule
${ epilogue.declare(kernel, "m", "n", view.matrix or schedule.group) }${ load_of_piece(kernel, view.matrix) }
//%- endmacro
