/*# Where an operand's k tile lies in a stage, as instructions are told. #*/
//% from "wgmma/fill.cu" import of_all
/*# The descriptor of x's k tile in a stage. `divided`: from this consumer's first line on. #*/
//% macro descriptor(x, divided=false)
//% set line = "LINE_%s * sizeof(%s)" | format(x.X, factor[x.X])
make_descriptor<${ line }>(shared.${ x.x }[stage]${ " + first * " ~ x.pitch if divided }, ${ leading_byte_offset(x, line) }, 8 * ${ line })
//%- endmacro
/*# From one box to the next; swizzled lines along k, of a box alone, need none. #*/
//% macro leading_byte_offset(x, line)
//% if x.chunks
B${ x.MN } * ${ line }
//%- elif x.along_k
16
//%- else
BK * ${ line }
//%- endif
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
64 * ${ x.pitch } * sizeof(${ factor[x.X] }) / 16
//%- endmacro
