/*# A piece of C is several boxes of TMA, side by side, which lie one behind the other in shared memory. #*/
//% from "wgmma/range.cu" import of_matrix
//% macro line(view)
(n / CN * ${ view.box_lines } + m)
//%- endmacro
//% set column = "n % CN"
//% macro load(view)
for (int at = 0; at < ${ view.boxes_columns }; at += CN) tma_load_${ view.c_rank }d(c + at * ${ view.box_lines }, &map_c, &shared.c_loaded[consumer], n + at, m${ of_matrix(view) });
//% endmacro
//% macro store(view)
for (int at = 0; at < ${ view.boxes_columns }; at += CN) tma_store_${ view.c_rank }d(&map_c, c + at * ${ view.box_lines }, n + at, m${ of_matrix(view) });
//% endmacro
