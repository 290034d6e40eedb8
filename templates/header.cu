/*# The comment at the top: what the kernel computes, how, what bounds it, how to make it again. #*/
//% macro header(kernel)
// ${ kernel.name }
//
//% if kernel.epilogue
//     C = ${ kernel.problem.epilogue }      acc = A * B${ "1, acc2 = A * B2, B1 and B2 side by side in B" if kernel.problem.products > 1 }${ ", row_sum of a row of A" if "row_sum" in kernel.problem.epilogue.sums }${ ", column_sum of a column of B" if "column_sum" in kernel.problem.epilogue.sums }; ${ kernel.computes }${ "; C is read unless beta = 0" if kernel.problem.epilogue.reads_c }${ ", A and B always" if "alpha" in kernel.problem.epilogue.scalars and kernel.problem.epilogue.reads_c else "; A and B are read even if alpha = 0" if "alpha" in kernel.problem.epilogue.scalars }
//% else
//     C = alpha * A * B + beta * C      ${ kernel.computes }; C is read unless beta = 0, A and B always
//% endif
//% if kernel.problem.batched
//     for each of ${ kernel.sizes.batch or "a batch's" } products${ ", whose matrices lie where A_array, B_array and C_array say" if kernel.problem.pointers }
//% endif
//% set conv = kernel.problem.inputs.conv
//% if conv
//     row m of C is (image, p, q) of ${ conv.places[0] } x ${ conv.places[1] } places, K is (r, s, c) of ${ conv.taps[0] } x ${ conv.taps[1] } taps
//% endif
//% if kernel.problem.inputs.groups
//     for each of ${ kernel.problem.inputs.groups } groups of rows, B one of as many matrices; rows behind offs' last end stay as they are
//% endif
//
//% for m in kernel.matrices
//     ${ m.name }  ${ m.rows } x ${ m.cols }, ${ m.order }-major, ${ m.stride }${ ", " ~ m.apart if m.apart }
//% endfor
//% for v in kernel.problem.companions
//     ${ v.name }  ${ v.lies(kernel.sizes) }: ${ v.meaning }
//% endfor
//% for v in kernel.problem.epilogue.operands if not v.is_matrix
//     ${ v.name }  ${ "%s elements" | format(kernel.sizes[v.size] or v.size) if v.size and kernel.sizes[v.size] != 1 else "one element" }, ${ v.note }${ ("; another for each product" if v.written else "; the same for all products") if kernel.problem.batched }
//% endfor
//
//% for line in kernel.notes
// ${ line }
//% endfor
//
// Launch  ${ "up to " if kernel.launch.persistent }${ kernel.blocks } blocks of ${ kernel.launch.threads } threads${ kernel.counted }${ ", %d bytes of dynamic shared memory" % kernel.launch.shared_bytes if kernel.launch.shared_bytes }
//% for line in kernel.maps
// ${ "Maps    " if loop.first else "        " }${ line }
//% endfor
// Expects ${ kernel.promises | join(",\n//         ") }
// Config  ${ kernel.full_name }
// Made by ${ kernel.command }
//% endmacro
