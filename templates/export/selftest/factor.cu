/*# Where rows of C are. #*/
//% macro row_of_c(m)
${ "int(decode(x.index_c(0, %s)))" | format(m) if out.problem.inputs.scattered else m }
//%- endmacro
/*# The numbers that are multiplied for an element of A and of B: where one holds images a pixel's, where blocks have scales with these. #*/
//% set blocks, lines, block = out.problem.inputs.blocks, out.problem.inputs.lines, out.problem.inputs.block
//% set product = ("p, " if test.own_ab else "0, ") if out.problem.batched
//% set images, gathered = out.problem.inputs.images, out.problem.inputs.gathered
//% macro factor_of_a(m, k)
//% set row = "int(decode(x.index_a(0, %s)))" | format(m) if gathered else m
//% if images == "A"
pixel(x, ${ m }, ${ k })
//%- elif out.problem.inputs.along_k
${ k } < begin || ${ k } >= end ? 0 : decode(x.A(${ product }${ row }, ${ k }))
//%- elif blocks
decode(x.A(${ product }${ row }, ${ k })) * decode(x.scales_a(${ k } / ${ block }, ${ m }))
//%- else
decode(x.A(${ product }${ row }, ${ k }))
//%- endif
//%- endmacro
//% set groups, by_rows = test.groups, out.problem.layout.b == "r"
//% macro element_of_b(k, n)
//% if groups and by_rows
x.B(group * s.K + ${ k }, ${ n })
//%- elif groups
x.B(${ k }, group * ${ out.problem.products ~ " * " if out.problem.products > 1 }s.N + ${ n })
//%- else
x.B(${ product }${ k }, ${ n })
//%- endif
//%- endmacro
/*# Where B's scale of k and n is: behind those of the groups before. #*/
//% macro scale_of_b(k, n)
//% if lines
x.scales_b(${ "group * ((s.K + %d) / %d) + " | format(block - 1, block) if groups }${ k } / ${ block }, ${ n })
//%- else
x.scales_b(${ "group * ((s.N + %d) / %d) + " | format(block - 1, block) if groups }${ n } / ${ block }, ${ k } / ${ block })
//%- endif
//%- endmacro
//% macro factor_of_b(k, n)
//% if images == "B"
pixel(x, ${ k }, ${ n })
//%- elif test.codes
//% set row = "(size_t(group) * s.K + %s)" | format(k) if groups else "size_t(%s)" | format(k)
${ "decode" if not out.problem.scaled_depth }(x.weights[${ row } * s.N + ${ n }])
//%- elif blocks
decode(${ element_of_b(k, n) }) * decode(${ scale_of_b(k, n) })
//%- else
decode(${ element_of_b(k, n) })
//%- endif
//%- endmacro
