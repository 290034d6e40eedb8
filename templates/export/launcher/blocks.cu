/*# How many blocks the grid has. #*/
//% if out.stream
    const size_t blocks = blocks_for(tiles_of_c(${ out.workspace_sizes | join(", ") }));
//% else
    const auto tiles = [](long long size, long long tile) { return (size + tile - 1) / tile; };
    const long long blocks = ${ out.splits }LL
//% for size, tile in out.grid
        * tiles(${ size }, ${ tile })${ ";" if loop.last }
//% endfor
//% endif
