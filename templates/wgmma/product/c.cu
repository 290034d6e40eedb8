/*# Products are those of C: the 64 rows of an instruction are rows of A. #*/
//% set extent, lines = "BM", "rows"
/*# A thread's first sum, `line` of the instruction's rows and `across` of its columns, as row and column of C. #*/
//% macro origin(line, across)
{${ line }, ${ across }}
//%- endmacro
//% set sum = "j / 2 * 4 + i * 2 + j % 2"
//% macro pieces(view, blocks, from)
for (int piece = 0; piece < ${ view.stored } / ${ view.piece }; ++piece) {
    const int m = tile.m${ from }, n = tile.n + ${ blocks.first_column }piece * ${ view.piece };
${ caller() | indent(4, true) | trim("\n") }
}
//% endmacro
