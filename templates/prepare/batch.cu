/*# A launch that prepares all matrices of a batch. #*/
//% set first = "tile / across % down"
//% macro all_tiles(c)
${ " * " ~ c.batch }
//%- endmacro
//% macro matrix(c)
        const long long matrix = tile / (across * down);
//% endmacro
//% macro source(c)
${ c.operand } + matrix * ${ c.stride }
//%- endmacro
//% macro element(c)
${ "matrix * %s + " | format(c.stride) }
//%- endmacro
//% macro chunk_line(count, line)
(${ count }matrix * lines + ${ line })
//%- endmacro
//% macro line_of_all(count, line)
${ count }matrix * lines + ${ line }
//%- endmacro
