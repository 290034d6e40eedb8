/*# Likewise for elements that are narrower than the sums: accesses stay as they are. #*/
//% from "skinny/lines.cu" import address_of
//% import "skinny/small/direct.cu" as direct
//% set chunk, choose, declare_chunk, free_chunk = direct.chunk, direct.choose, direct.declare_chunk, direct.free_chunk
//% set aligned, where, place = "", direct.where, {true: "[line][depth / XW]", false: "[depth][line / XW]"}
//% macro small(x, w, view)
//% import view.guard as edge
//% call direct.fetch_small(x, view)
chunk${ place[x.along_k] } = ${ edge.load("load_packed", x.X ~ " + " ~ address_of(x, "line")) };
//% endcall
//% endmacro
