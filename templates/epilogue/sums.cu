/*# The sums of A's rows and B's columns that an epilogue takes: a thread has those of its rows and columns. #*/
//% set lines = {"row_sum": "TM", "column_sum": "TN"}
/*# As further arguments. #*/
//% macro sums(kernel)
//%- for name in kernel.problem.epilogue.sums
, ${ name }s
//%- endfor
//%- endmacro
/*# As further parameters, that a function changes or, where `const`, reads. #*/
//% macro sum_parameters(kernel, const="")
//%- for name in kernel.problem.epilogue.sums
, ${ const }${ T } (&${ name }s)[${ lines[name] }]
//%- endfor
//%- endmacro
/*# Their definitions. #*/
//% macro declare_sums(kernel)
//% for name in kernel.problem.epilogue.sums
${ T } ${ name }s[${ lines[name] }] = {};  // of this thread's ${ "rows of A" if name == "row_sum" else "columns of B" }
//% endfor
//% endmacro
/*# Where launches before have summed: from there to registers. #*/
//% macro load_sums(kernel)
/*% for name in kernel.problem.epilogue.sums %*/
//% set row = name == "row_sum"
//% set x, count = ("m", "rows") if row else ("n", "columns")
//% set edge = x | upper in kernel.edges
// The sums of this thread's ${ "rows of A" if row else "columns of B" }${ ", of which there are %s from the piece's first one on" | format(count) if edge }.
__device__ __forceinline__ void load_${ name }s(const ${ T }* from${ ", int " ~ count if edge }, ThreadOrigin thread, ${ T } (&${ name }s)[${ lines[name] }])
{
    #pragma unroll
    for (int i = 0; i < ${ lines[name] }; ++i) {
        const int ${ x } = thread.${ x } + i / F${ x | upper } * STEP_${ x | upper } + i % F${ x | upper };
        ${ name }s[i] = ${ "%s < %s ? from[%s] : 0" | format(x, count, x) if edge else "from[%s]" | format(x) };
    }
}

/*% endfor %*/
//% endmacro
/*# Adds `a`, elements of A at one k, or `b`, by the index `i`. #*/
//% from "device/convert.cu" import add_to
//% macro add_fragments(kernel, a, b)
//% for name in kernel.problem.epilogue.sums
#pragma unroll
for (int i = 0; i < ${ lines[name] }; ++i) ${ add_to(name ~ "s[i]", a if name == "row_sum" else b) }
//% endfor
//% endmacro
/*# Elements of the workspace that a block of a shared tile takes. #*/
//% macro partial_elements(kernel)
//% set summed = kernel.problem.epilogue.sums | map("replace", "row_sum", "TM") | map("replace", "column_sum", "TN") | join(" + ")
(BM * BN${ " + THREADS * (%s)" | format(summed) if summed })
//%- endmacro
