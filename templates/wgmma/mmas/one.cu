/*# A consumer's tile has the lines of one instruction. #*/
//% from "wgmma/range.cu" import sums_of_mma
//% from "wgmma/layout.cu" import by_k
//% set of, parameter, argument = "", "", ""
//% macro array(view, ctype, count)
${ ctype }[${ count }]
//%- endmacro
/*# A number of the consumer's, of register `r` of its instruction's sums. #*/
//% macro number(view, r)
${ r }
//%- endmacro
//% macro accumulators(view)
//% import view.product as product
//% import view.tiles as tiles
using Accumulators = ${ view.wgmma.c_type }[${ sums_of_mma(view) }];
static_assert(${ product.extent } == 64${ tiles.all_consumers }, "a consumer multiplies 64 ${ product.lines }");
//% endmacro
//% macro each_mma(view)
${ caller() | trim("\n") }
//% endmacro
//% macro multiply(view, adds)
for (int k = 0; k < BK; k += K_STEP)
    ${ view.wgmma.function }(acc, a + ${ by_k(view.first) }, b + ${ by_k(view.second) }${ adds });
//% endmacro
/*# What is added to the tile's first line for a consumer's. #*/
//% macro first_line(view)
${ " + consumer * 64" if not view.pingpong }
//%- endmacro
/*# The number of one of a consumer's pieces of C. #*/
//% macro piece(view)
piece
//%- endmacro
