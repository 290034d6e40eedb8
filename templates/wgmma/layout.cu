/*# Where an operand's k tile lies in a stage, as instructions are told. #*/
//% from "wgmma/fill.cu" import of_all
/*# The descriptor of x's k tile in a stage. `divided`: from this consumer's first line on. #*/
//% macro descriptor(x, divided=false)
//% set line = "LINE_%s * sizeof(%s)" | format(x.X, factor[x.X])
make_descriptor<${ line }>(shared.${ x.x }[stage]${ " + first * %s" | format("LINE_" ~ x.X if x.along_k else "BK") if divided }, ${ "B%s * %s" | format(x.MN, line) if x.chunks else "16" if x.along_k else "BK * " ~ line }, 8 * ${ line })
//%- endmacro
/*# What it gains, in chunks of 16 bytes, by k, #*/
//% macro by_k(x)
//% if not x.along_k
k * LINE_${ x.X } * sizeof(${ factor[x.X] }) / 16
//%- elif x.boxes > 1
(k / LINE_${ x.X } * LINE_${ x.X } * ${ of_all(x, "B" ~ x.MN) } + k % LINE_${ x.X }) * sizeof(${ factor[x.X] }) / 16
//%- else
k * sizeof(${ factor[x.X] }) / 16
//%- endif
//%- endmacro
/*# and by 64 lines. #*/
//% macro by_64_lines(x)
64 * ${ "LINE_" ~ x.X if x.along_k else "BK" } * sizeof(${ factor[x.X] }) / 16
//%- endmacro
