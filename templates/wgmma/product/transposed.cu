/*# Products are those of C's transpose, C^T = B^T A^T: the 64 rows of an instruction, whose a is B, are columns of B. #*/
//% set extent, lines = "BN", "columns"
//% macro origin(line, across)
{${ across }, ${ line }}
//%- endmacro
//% set sum = "i / 2 * 4 + j * 2 + i % 2"
//% macro pieces(view, blocks, from)
for (int piece = 0; piece < ${ view.stored } / CM; ++piece) {
    const int m = tile.m + ${ blocks.first_row }piece * CM, n = tile.n${ from };
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
