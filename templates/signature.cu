/*# A batch's matrices of the product number `product`, as A, B and C. #*/
//% macro matrices_of(kernel, product)
//% if kernel.problem.pointers
    const ${ TA }* __restrict__ const A = A_array[${ product }];
    const ${ TB }* __restrict__ const B = B_array[${ product }];
    ${ TC }* __restrict__ const C = C_array[${ product }];
//% else
//% for x in kernel.problem.strides if x.name in "ABC"
    ${ x.name } += ${ product } * s.${ x.stride };
//% endfor
//% endif
${ vectors_of(kernel, product) }
//%- endmacro
/*# The epilogue's vectors and matrices of this product. #*/
//% macro vectors_of(kernel, product)
//% for x in kernel.problem.epilogue.operands if kernel.to_product(x, product)
    ${ x.name } += ${ kernel.to_product(x, product) };
//% endfor
//% endmacro
/*# Those of a kernel, or of a launch before it. #*/
//% set before_name = {true: " __restrict__ ", false: " "}
//% macro parameters(all)
//% for p in all
, ${ p.ctype }${ before_name[p.is_pointer] }${ p.text }
//%- endfor
//%- endmacro
//% macro signature(kernel)
extern "C" __global__ void ${ "__cluster_dims__(%s, 1, 1) " | format(kernel.cluster) if kernel.cluster }__launch_bounds__(${ kernel.launch_bounds | join(", ") })
${ kernel.name }(
    ${ parameters(kernel.parameters)[2:] })
//% endmacro
