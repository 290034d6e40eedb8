/*# How TMA fills a stage of the ring. #*/
//% from "wgmma/range.cu" import matrix_number
//% import "wgmma/images.cu" as images
/*# Copies of the k tiles that begin at k, or of a block's part of them. Their bytes count at `full`. #*/
//% macro fill_stage(view)
unsigned long long* const full = &shared.full[ring.stage];
mbarrier_arrive_expect_tx(full, ${ bytes_of(view.a) ~ " + " if not view.gathered }${ bytes_of(view.b) });  // of all copies to this block
//% for x in (view.a, view.b) if not x.gathered
${ copy(view, x) }
//% for number in range(1, x.beside)
//% set times = "%d * " | format(number) if number > 1
${ copy(view, x, "%ss.%s + " | format(times, x.MN), " + %sB%s * %s" | format(times, x.MN, x.pitch)) }
//% endfor
//% endfor
//% endmacro
/*# What these copies bring of x: all that a stage holds, unless boxes have fewer lines. #*/
//% macro bytes_of(x)
//% if x.ragged
lines_${ x.x } * BK * sizeof(${ factor[x.X] })
//%- elif x.limited
${ of_all(x, "LINES_" ~ x.X) } * BK * sizeof(${ factor[x.X] })
//%- else
sizeof(shared.${ x.x }[0])
//%- endif
//%- endmacro
/*# Lines of a k tile, those of all matrices side by side. #*/
//% macro of_all(x, lines)
${ "%d * " | format(x.beside) if x.beside > 1 }${ lines }
//%- endmacro
/*# The k tile of x, whose lines begin at `matrix` + tile, to where it lies `behind` the stage's beginning: a box, or several side by
    side. A run-time size may leave nothing of what a block of a cluster brings. #*/
//% macro copy(view, x, matrix="", behind="")
//% set inside = ("part < lines_%s" if x.shared else "lines_%s > 0") | format(x.x) if x.ragged and view.cluster > 1
//% if inside and x.boxes > 1
if (${ inside }) {
${ boxes(view, x, matrix, behind) | indent(4, true) }
}
//%- elif inside
if (${ inside }) ${ boxes(view, x, matrix, behind) }
//%- else
${ boxes(view, x, matrix, behind) }
//%- endif
//%- endmacro
//% macro boxes(view, x, matrix, behind)
//% if x.packed
${ packed(view, x) }
//%- elif x.boxes == 1
${ box(view, x, behind, "k", matrix ~ "tile." ~ x.mn) }
//%- elif x.along_k
#pragma unroll
for (int at = 0; at < BK; at += LINE_${ x.X }) ${ box(view, x, behind ~ " + at * " ~ of_all(x, "B" ~ x.MN), "k + at", matrix ~ "tile." ~ x.mn) }
//%- else
#pragma unroll
for (int at = 0; at < B${ x.MN }; at += LINE_${ x.X }) ${ box(view, x, behind ~ " + at * BK", "k", matrix ~ "tile.%s + at" | format(x.mn)) }
//%- endif
//%- endmacro
/*# A box, from element `k` and line `mn` on, to so many elements `behind` the stage's beginning. #*/
//% macro box(view, x, behind, k, mn)
//% if x.images
${ images.box(x, behind, k, mn) }
//%- else
//% set rank, map = view.box_rank + x.grouped, ("box_" if x.ragged else "&map_") ~ x.x
//% set to, matrix = "shared.%s[ring.stage]%s" | format(x.x, behind), matrix_of(view, x)
//% set element, line = (k, mn) if x.along_k else (mn, first_k(view, k))
//% if x.shared
tma_load_multicast_${ rank }d(${ to } + part * LINE_${ x.X }, ${ map }, full, ${ element }, ${ line } + part${ matrix }, (1 << CLUSTER) - 1);
//%- else
tma_load_${ rank }d(${ to }, ${ map }, full, ${ element }, ${ line }${ matrix });
//%- endif
//%- endif
//%- endmacro
/*# The line of `k`, of which a bounded map has those of the group alone. #*/
//% macro first_k(view, k)
${ "BOUND - depth + " if view.along_k }${ k }
//%- endmacro
/*# Rows of chunks before that of `k`: those of the groups before lie before them, too. Beyond K a group has none, and not the next one's,
    whose scales may be infinite: TMA fills what lies behind the last group's with zeros. #*/
//% macro chunks_before(view, k)
//% set rows = "((s.K + CHUNK_K - 1) / CHUNK_K)"
//% if view.groups and view.absent_chunks
(${ k } < s.K ? tile.group * ${ rows } + ${ k } / CHUNK_K : GROUPS * ${ rows })
//%- elif view.groups
(tile.group * ${ rows } + ${ k } / CHUNK_K)
//%- else
${ k } / CHUNK_K
//%- endif
//%- endmacro
/*# The chunks of the tile's columns, for each chunk's k. #*/
//% macro packed(view, x)
//% if x.boxes > 1
#pragma unroll
for (int at = 0; at < BK; at += CHUNK_K)
    tma_load_2d(shared.b[ring.stage][at / CHUNK_K], &map_b, full, 0, (${ chunks_before(view, "(k + at)") } * ((s.N + 63) / 64) + tile.n / 64) * CHUNK_LINES);
//%- else
tma_load_2d(shared.b[ring.stage], &map_b, full, 0, (${ chunks_before(view, "k") } * ((s.N + 63) / 64) + tile.n / 64) * CHUNK_LINES);
//%- endif
//%- endmacro
/*# The further coordinates of a box: which matrix it is of. #*/
//% macro matrix_of(view, x)
//% if view.pieces
, ${ matrix_number(view) ~ " * PIECES + " if view.batched }pair.${ x.x }
//%- elif view.pointers
, origin_${ x.x }.near, origin_${ x.x }.far
//%- elif view.along_k
, BOUND, end
//%- elif view.batched
, matrix
//%- elif x.grouped
, tile.group
//%- endif
//%- endmacro
