/*# Likewise for bytes that stay as they are. #*/
//% import "skinny/small/staged_packed.cu" as packed
//% set chunk, choose, declare_chunk, free_chunk = packed.chunk, packed.choose, packed.declare_chunk, packed.free_chunk
//% set where = packed.where
//% macro small(x, w, view)
//% call packed.stage(x, w, view)
store_packed(&chunk[line][depth], values);
//% endcall
//% endmacro
