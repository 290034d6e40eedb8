/*# The comment at the top: what the kernel computes, how, what bounds it, how to make it again. #*/
//% macro header(kernel)
// ${ kernel.name }
//
//     ${ kernel.header.formula }
//% for line in kernel.header.products
//     ${ line }
//% endfor
//
//% for line in kernel.header.operands
//     ${ line }
//% endfor
//
//% for line in kernel.notes
// ${ line }
//% endfor
//
// Launch  ${ kernel.header.grid }
//% for line in kernel.maps
// ${ line }
//% endfor
// Expects ${ kernel.promises | join(",\n//         ") }
// Config  ${ kernel.full_name }
// Made by ${ kernel.command }
//% endmacro
