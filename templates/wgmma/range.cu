/*# Which tiles of C a block computes, and over which k tiles: expressions that several templates write. #*/
/*# Blocks that count as one: those of a cluster, or that share a tile. #*/
//% macro clusters(view, blocks)
${ blocks }${ " / CLUSTER" if view.cluster > 1 else " / SPLIT" if view.split }
//%- endmacro
/*# The number of the block's first tile, and from there to its next one. #*/
//% macro first_tile(view)
${ clusters(view, "blockIdx.x") }
//%- endmacro
//% macro tile_step(view)
${ clusters(view, "gridDim.x") }
//%- endmacro
/*# Tiles of a matrix C, and of all matrices. #*/
//% macro tiles_of_matrix(view)
//% set rows, columns = "CLUSTER_M" if view.along == "m" else "BM", "CLUSTER_N" if view.along == "n" else "BN"
((s.M + ${ rows } - 1) / ${ rows }) * ((s.N + ${ columns } - 1) / ${ columns })
//%- endmacro
//% macro all_tiles(view)
tiles${ " * " ~ view.batch if view.counted }
//%- endmacro
/*# The tile that the block computes, among those of all matrices, within its matrix, and that matrix. #*/
//% macro number_of_tile(view)
${ "number" if view.persistent else "static_cast<int>(%s)" | format(first_tile(view)) }
//%- endmacro
//% macro tile_number(view)
${ number_of_tile(view) }${ " % tiles" if view.counted }
//%- endmacro
//% macro matrix_number(view)
${ number_of_tile(view) ~ " / tiles" if view.counted else "tile.group" }
//%- endmacro
/*# The coordinates that say which matrix C is. #*/
//% macro of_matrix(view)
${ ", origin_c.near, origin_c.far" if view.pointers else ", matrix" if view.batched }
//%- endmacro
/*# The block's range of K, or its group's, from 0 on. #*/
//% macro k_begin(view)
${ "begin" if view.split else "0" }
//%- endmacro
//% macro k_end(view)
${ "end" if view.split else "depth" if view.along_k else "s.K" }
//%- endmacro
//% macro k_extent(view)
${ "end - begin" if view.split else k_end(view) }
//%- endmacro
/*# Whether it has a k tile. #*/
//% macro any_k(view)
${ "begin < end" if view.split else k_end(view) ~ " > 0" }
//%- endmacro
/*# Where an interval of K ends, of operands that are split into pieces. #*/
//% macro interval_end(view)
${ "first + INTERVAL" if view.whole_intervals else "min(first + INTERVAL, %s)" | format(k_end(view)) }
//%- endmacro
/*# The loop over the k tiles whose sums are accumulated: of A and B, or of all pairs of their pieces in an interval. #*/
//% macro k_loop(view)
//% if view.pieces
int i = 0; i < PAIRS * ${ "INTERVAL / BK" if view.whole_intervals else "((min(INTERVAL, %s - first) + BK - 1) / BK)" | format(k_end(view)) }; ++i
//%- else
int k = ${ k_begin(view) }; k < ${ k_end(view) }; k += BK
//%- endif
//%- endmacro
/*# Whether a k tile is not the first of these. #*/
//% macro later(view)
${ "i > 0" if view.pieces else "k > " ~ k_begin(view) }
//%- endmacro
/*# What multiply_stage and multiply_step are told of the ring's stage. The compiler is told that all lanes of a consumer alone have the
    same one. #*/
//% macro stage_arguments(view)
//% set stage = "first_lane(ring.stage)" if view.uniform_stage else "ring.stage"
${ stage }, ${ first_line(view) ~ ", " if not view.pingpong }${ later(view) ~ ", " if view.pieces }
//%- endmacro
/*# The first line of a consumer's part of a tile. #*/
//% macro first_line(view)
consumer * ${ view.mmas ~ " * " if view.mmas }64
//%- endmacro
/*# Registers of a thread for the sums of an instruction, and for those of them that its block stores. #*/
//% macro sums_of_mma(view)
${ registers_of(view, "BM" if view.swapped else "BN") }
//%- endmacro
//% macro kept_sums(view)
${ registers_of(view, view.stored) }
//%- endmacro
//% macro registers_of(view, columns)
//% set times, parts = view.register_ratio
${ columns }${ " * %d" | format(times) if times > 1 }${ " / %d" | format(parts) if parts > 1 }
//%- endmacro
