/*# A consumer's tile has the lines of several instructions; the text knows the i-th. #*/
//% from "wgmma/range.cu" import sums_of_mma
//% from "wgmma/layout.cu" import by_64_lines, by_k
//% set of, parameter, argument = "[i]", "int i, ", "i, "
//% macro array(view, ctype, count)
${ ctype }[${ view.mmas }][${ count }]
//%- endmacro
//% macro number(view, r)
(i * (${ sums_of_mma(view) }) + ${ r })
//%- endmacro
//% macro accumulators(view)
using Accumulators = ${ view.wgmma.c_type }[${ view.mmas }][${ sums_of_mma(view) }];
//% endmacro
//% macro each_mma(view)
#pragma unroll
for (int i = 0; i < ${ view.mmas }; ++i) {
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
//% macro multiply(view, adds)
for (int k = 0; k < BK; k += K_STEP) {
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i)
        ${ view.wgmma.function }(acc[i], a + i * ${ by_64_lines(view.first) } + ${ by_k(view.first) }, b + ${ by_k(view.second) }${ adds });
}
//% endmacro
//% macro first_line(view)
 + ${ "i" if view.pingpong else "(consumer * %s + i)" | format(view.mmas) } * 64
//%- endmacro
//% macro piece(view)
(i * ${ view.stored } / ${ view.piece } + piece)
//%- endmacro
