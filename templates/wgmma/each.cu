/*# The instructions of a consumer, side by side in its tile, and a thread's sums of each. #*/
/*# What a consumer does for each of them, the i-th: without a loop where there is one alone. #*/
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
/*# Behind sums: those of instruction i. #*/
//% macro of_mma(view)
${ "[i]" if view.mmas }
//%- endmacro
/*# Registers of a thread for the sums of an instruction, and for those of them that its block stores. #*/
//% macro sums_of_mma(view)
${ registers_of(view, "BM" if view.swapped else "BN") }
//%- endmacro
//% macro kept_sums(view)
${ registers_of(view, view.stored) }
//%- endmacro
/*# Likewise of so many of its columns. #*/
//% macro registers_of(view, columns)
${ columns }${ " / %d" | format(view.register_columns) if view.register_columns > 1 }
//%- endmacro
