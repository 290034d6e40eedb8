/*# A launch that prepares one matrix: the first line of a block's tile, where it reads, and the line of the copy that it writes. #*/
//% set first = "tile / across"
//% macro all_tiles(c)
//%- endmacro
//% macro matrix(c)
//%- endmacro
//% macro source(c)
${ c.operand }
//%- endmacro
//% macro element(c)
//%- endmacro
//% macro chunk_line(count, line)
static_cast<long long>(${ line })
//%- endmacro
//% macro line_of_all(count, line)
${ line }
//%- endmacro
