/*# Steps of weights are under way to registers. #*/
//% from "device/packed.cu" import access
//% set rest = "shared"
//% macro start(w, i, address, view)
weights[${ i }] = load_edge<VW>(${ address }, valid);
//% endmacro
/*# Where a step's weights go when they are loaded. #*/
//% macro weights(w)
${ access(w, "VW") } (&weights)[LOADS]
//%- endmacro
//% macro commit()
//%- endmacro
//% macro functions(w)
//%- endmacro
//% macro declare_ring()
//%- endmacro
