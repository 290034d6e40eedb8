/*# All that is read of the small operand exists. #*/
//% macro exists(x, view, line)
//%- endmacro
//% macro guard(x, view, line)
//%- endmacro
//% macro load(plain, address)
${ plain }<XW>(${ address })
//%- endmacro
//% macro element(x)
${ x.X }[at]
//%- endmacro
