/*# The sums of A's rows and B's columns that an epilogue takes: a thread has those of its rows and columns. #*/
//% from "epilogue/extent.cu" import counts, left
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
${ T } ${ name }s[${ lines[name] }] = {};  // of this thread's ${ sides[name].what }
//% endfor
//% endmacro
/*# The side of C that each belongs to. #*/
//% set sides = {
    "row_sum": {"what": "rows of A", "from": "a", "size": "M", "x": "m", "count": "rows"},
    "column_sum": {"what": "columns of B", "from": "b", "size": "N", "x": "n", "count": "columns"}}
/*# Where launches before have summed: from there to registers. #*/
//% macro load_sums(kernel)
//% for name in kernel.problem.epilogue.sums
//% set side = sides[name]
//% set x = side.x
// The sums of this thread's ${ side.what }, of those that exist.
__device__ __forceinline__ void load_${ name }s(const ${ T }* from${ counts(kernel.c_edges | select("equalto", side.size)) }, ThreadOrigin thread, ${ T } (&${ name }s)[${ lines[name] }])
{
    #pragma unroll
    for (int i = 0; i < ${ lines[name] }; ++i) {
        const int ${ x } = thread.${ x } + i / F${ side.size } * STEP_${ side.size } + i % F${ side.size };
//% if side.size in kernel.edges
        ${ name }s[i] = ${ x } < ${ side.count } ? from[${ x }] : 0;
//% else
        ${ name }s[i] = from[${ x }];
//% endif
    }
}

//% endfor
//% endmacro
/*# Of a piece of C that begins at row m and column n, of the product number `product` of a batch. #*/
//% macro load_of_piece(kernel, product)
//% for name in kernel.problem.epilogue.sums
//% set side = sides[name]
${ T } ${ name }s[${ lines[name] }];
load_${ name }s(sums_${ side.from } + ${ "static_cast<long long>(%s) * s.%s + " | format(product, side.size) if product }${ side.x }${ left(kernel.c_edges | select("equalto", side.size), "m", "n") }, thread, ${ name }s);
//% endfor
//% endmacro
/*# Those of a thread's row `i`, as further arguments. #*/
//% macro sums_of_row(kernel, i)
//%- for name in kernel.problem.epilogue.sums
, ${ name }s${ {"row_sum": "[%s]" | format(i), "column_sum": ""}[name] }
//%- endfor
//%- endmacro
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
