/*# A batch's matrices of the product number `product`, as A, B and C. #*/
//% macro matrices_of(kernel, product)
//% if kernel.problem.pointers
    const ${ TA }* __restrict__ const A = A_array[${ product }];
    const ${ TB }* __restrict__ const B = B_array[${ product }];
    ${ TC }* __restrict__ const C = C_array[${ product }];
//% else
    A += ${ product } * s.stride_a;
    B += ${ product } * s.stride_b;
    C += ${ product } * s.stride_c;
//% endif
//% for x in kernel.problem.epilogue.operands if kernel.to_product(x, product)
    ${ x.name } += ${ kernel.to_product(x, product) };
//% endfor
//% endmacro
/*# `filled`: as many parameters as fit stand in a line. #*/
//% macro parameters(kernel)
//% for p in kernel.parameters
${ p.ctype }${ " __restrict__ " if p.is_pointer else " " }${ p.text }${ ",\n" if not loop.last }
//%- endfor
//%- endmacro
//% macro signature(kernel, filled=false)
extern "C" __global__ void ${ "__cluster_dims__(%s, 1, 1) " | format("SPLIT" if kernel.launch.splits > 1 else "CLUSTER") if kernel.launch.cluster > 1 }__launch_bounds__(${ kernel.launch_bounds | join(", ") })
${ kernel.name }(
//% if filled
    ${ parameters(kernel) | replace("\n", " ") })
//% else
${ parameters(kernel) | indent(4, true) })
//% endif
//% endmacro
