/*# Epilogues whose inputs a thread loads before the sums are there. #*/
//% from "epilogue/tree.cu" import declarations, new_element, read_operand, told
//% macro epilogue(kernel)
//% set e = kernel.problem.epilogue
${ declarations(kernel) }
//% if e.read
// What the epilogue reads of these for one element of C.
struct EpilogueInputs {
//% for x in e.read
    ${ kernel.ctype_of(x) } ${ x.name };
//% endfor
};

__device__ __forceinline__ EpilogueInputs load_inputs(const Epilogue& e${ told(kernel.epilogue.inputs) })
{
    return {${ elements(e)[2:] }};
}

//% endif
${ new_element(kernel, (", const EpilogueInputs& inputs" if e.read) ~ told(kernel.epilogue.late), "inputs.") }
//%- endmacro
//% macro elements(e)
//%- for x in e.read
, ${ read_operand(x) }
//%- endfor
//%- endmacro
