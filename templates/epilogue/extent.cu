/*# Where C ends: how many rows and columns of it there are from a tile's first ones on. #*/
//% set usual = {"M": "rows", "N": "columns"}
/*# As further parameters, of those of M and N that are `edges`, by their `names`, #*/
//% macro counts(edges, names=usual)
//%- for size in edges
, int ${ names[size] }
//%- endfor
//%- endmacro
/*# as arguments of a function that has them, #*/
//% macro counted(edges, names=usual)
//%- for size in edges
, ${ names[size] }
//%- endfor
//%- endmacro
/*# and from row `m` and column `n` on, where C has these `ends`. #*/
//% set of_c = {"M": "s.M", "N": "s.N"}
//% macro left(edges, m, n, ends=of_c)
//% set from = {"M": m, "N": n}
//%- for size in edges
, ${ ends[size] } - ${ from[size] }
//%- endfor
//%- endmacro
/*# How a store of row m, and of VC columns from n on, sees an edge: by whether tiles move back from it. #*/
//% set row_ends = {
    false: {"count": "rows", "beyond": "m >= rows", "because": "C has no such row"},
    true: {"count": "skip_rows", "beyond": "m < skip_rows", "because": "the tile moved back: another one stores this row"}}
//% set column_ends = {
    false: {"count": "columns", "valid": "columns - n", "within": "n < columns"},
    true: {"count": "skip_columns", "valid": "n < skip_columns ? 0 : VC", "within": "n >= skip_columns"}}
/*# The row of C, from the tile's first, that a thread has as its i-th; of a slice of its tile where blocks are `sliced`. #*/
//% set rows_of_thread = {false: "TM", true: "ROWS"}
//% macro row_of_thread(sliced)
//% if sliced
const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the thread tile
const int m = thread.m + row / FM * STEP_M + row % FM;
//% else
const int m = thread.m + i / FM * STEP_M + i % FM;
//% endif
//% endmacro
