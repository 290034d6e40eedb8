/*# What a consumer does for each of its instructions, the i-th: without a loop where there is one alone. #*/
//% macro each_mma(view)
//% if view.mmas
    #pragma unroll
    for (int i = 0; i < ${ view.mmas }; ++i) {
${ caller() | indent(8, true) | trim("\n") }
    }
//% else
${ caller() | indent(4, true) | trim("\n") }
//% endif
//% endmacro
