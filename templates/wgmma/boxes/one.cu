/*# A piece of C is one box of TMA. #*/
//% from "wgmma/range.cu" import of_matrix
//% macro line(view)
m
//%- endmacro
//% set column = "n"
//% macro load(view)
tma_load_${ view.c_rank }d(c, &map_c, &shared.c_loaded[consumer], n, m${ of_matrix(view) });
//% endmacro
//% macro store(view)
tma_store_${ view.c_rank }d(&map_c, c, n, m${ of_matrix(view) });
//% endmacro
