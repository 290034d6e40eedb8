/*# Other epilogues: their inputs are loaded while the products are summed. #*/
//% from "epilogue/early.cu" import epilogue
//% from "epilogue/result.cu" import narrowed
//% from "epilogue/tree.cu" import applied_at, at_position, declare_outputs, inputs, raise_amaxes, store_matrices, warp_amax
//% from "skinny/store/linear.cu" import each_element
//% macro declare(kernel)
    const Epilogue e = ${ inputs(kernel) };
//% if kernel.problem.epilogue.read
    EpilogueInputs inputs[OUTPUTS] = {};  // under way while the products are summed
    load_inputs(e, s, tile_m, tile_n, inputs);
//% endif

//% endmacro
/*# The inputs, where it has any, as a parameter of store_c, #*/
//% macro inputs_parameter(e)
//%- for x in e.read[:1]
, const EpilogueInputs (&inputs)[OUTPUTS]
//%- endfor
//%- endmacro
/*# and all that it is given of the epilogue. #*/
//% macro given(e)
e
//%- for x in e.read[:1]
, inputs
//%- endfor
//%- endmacro
//% macro exists(edges)
//% set within = {"M": "m < s.M", "N": "n < s.N"}
(OUTPUTS * THREADS == BM * BN || element < BM * BN)
//%- for size in edges
 && ${ within[size] }
//%- endfor
//%- endmacro
//% macro functions(kernel)
//% set e = kernel.problem.epilogue
${ epilogue(kernel) }
//% if kernel.warp_amaxes
${ warp_amax() }
//% endif
//% if e.read
// What the epilogue reads for this thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void load_inputs(const Epilogue& e, Shape s, int tile_m, int tile_n, EpilogueInputs (&inputs)[OUTPUTS])
{
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (${ exists(kernel.c_edges) }) inputs[i] = load_inputs(e${ at_position(kernel.epilogue.inputs) });
    }
}

//% endif
// This thread's elements of C that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(${ TC }* C, Shape s, int tile_m, int tile_n, const ${ T } (&sums)[OUTPUTS], const Epilogue& e${ inputs_parameter(e) })
{
//% if e.amaxes
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        const bool exists = ${ exists(kernel.c_edges) };
${ declare_outputs(e) | indent(8, true) | trim("\n") }
        if (exists) {
            ${ TC }* const to = C + Offset(m) * s.ldc + n;
${ new_element(kernel) | indent(12, true) | trim("\n") }
        }
${ raise_amaxes(kernel) | indent(8, true) | trim("\n") }
    }
//% else
//% call each_element(kernel)
//% filter indent(8, true)
${ declare_outputs(e) }${ new_element(kernel) }
//% endfilter
//% endcall
//% endif
}
//% endmacro
//% macro new_element(kernel)
*to = ${ narrowed(applied_at(kernel, "m", "n", "sums[i]", "*to", inputs="inputs[i]")) };
${ store_matrices(kernel.problem.epilogue, "m", "n") | trim("\n") }
//%- endmacro
