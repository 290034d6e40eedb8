/*# Where elements of an operand lie, by the direction of its lines: row or column `mn`, and k. #*/
/*# In a shared tile whose lines run along k, or across: the indices. #*/
//% macro at(along_k, mn, k)
[${ mn if along_k else k }][${ k if along_k else mn }]
//%- endmacro
/*# In global memory: elements from the first of x to that of a row or column, or of a k, alone, #*/
//% macro to_mn(x, mn)
${ "Offset(%s) * s.%s" | format(mn, x.ld) if x.along_k else mn }
//%- endmacro
//% macro to_k(x, k)
${ k if x.along_k else "Offset(%s) * s.%s" | format(k, x.ld) }
//%- endmacro
/*# and to that of both. #*/
//% macro to(x, mn, k)
Offset(${ mn if x.along_k else k }) * s.${ x.ld } + ${ k if x.along_k else mn }
//%- endmacro
/*# Whether row m or column n lies beyond C; empty where tiles end with it. #*/
//% macro beyond(edges)
${ (["m >= s.M"] * ("M" in edges) + ["n >= s.N"] * ("N" in edges)) | join(" || ") }
//%- endmacro
