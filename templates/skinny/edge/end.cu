/*# The end of the block's range of K, where its reads of the small operand may pass it: as a parameter, #*/
//% macro end_parameter(view)
//%- for size in view.k_ends
, int end
//%- endfor
//%- endmacro
/*# and as an argument. #*/
//% macro end_argument(view)
//%- for size in view.k_ends
, end
//%- endfor
//%- endmacro
/*# Whether weights exist from `line` on, at k. #*/
//% macro weights_exist(k, line, w, view)
${ k } < end
//%- for size in view.w_ends
 && ${ line } < s.${ size }
//%- endfor
//%- endmacro
