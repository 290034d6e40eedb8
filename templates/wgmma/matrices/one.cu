/*# B is one matrix. #*/
//% macro times(view)
//%- endmacro
//% macro further(view, at="")
//%- endmacro
//% macro further_sums(view, mmas)
//%- endmacro
//% macro add_part(view, mmas, part)
//% from "device/convert.cu" import add_to
load_shared_cluster(address_of_sums(shared, ${ mmas.argument }rank * (${ part }) + r), peer, sums);
#pragma unroll
for (int j = 0; j < 4; ++j) ${ add_to("part%s[r + j]" | format(mmas.of), "sums[j]") }
//% endmacro
