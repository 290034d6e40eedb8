/*# Parameters of a header: their names are comments, since its users may have a macro M. #*/
//% macro unnamed(sizes)
//%- for size in sizes
int /* ${ size } */${ ", " if not loop.last }
//%- else
void
//%- endfor
//%- endmacro
