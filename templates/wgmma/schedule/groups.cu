/*# Tiles of groups of rows, which the device alone counts: each group begins with a tile of its own, in C or, of masked groups, in
    its own C. A warp finds the tiles of its block by itself, and goes on from one to the next. #*/
//% import "wgmma/schedule/grid.cu" as grid
//% from "wgmma/range.cu" import first_line, tile_number
//% set range_of_group, end_of_range = grid.range_of_group, grid.end_of_range
//% set drop_alpha, drop_alpha_of_group = grid.drop_alpha, grid.drop_alpha_of_group
/*# Ends of the groups, or of masked ones the number of rows of each. #*/
//% macro vector_of(view)
${ "group_rows" if view.masked else "offs" }
//%- endmacro
//% set ends, group = {"M": "tile.end", "N": "s.N"}, "tile.group"
//% macro functions(view)
//% set width, to_column = ("CLUSTER_N", "CLUSTER_N + rank * BN") if view.along == "n" else ("BN", "BN")
//% set many, vector = view.groups > 32, vector_of(view)
// Where in C a tile begins, its group, and the row where the group ends.
struct TileOrigin { int m, n, group, end; };

__device__ __forceinline__ int tiles_of_rows(int rows, Shape s)
{
    return (rows + BM - 1) / BM * ((s.N + ${ width } - 1) / ${ width });
}

// A lane's value in all lanes of the warp.
__device__ __forceinline__ int of_lane(int value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }

// Up to 32 groups of rows, one per lane of a warp. All lanes of the warp call these functions together.
struct Groups {
//% if view.masked
    int rows;        // of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum
//% else
    int begin, end;  // rows of this lane's group
    int tiles;       // of the groups of lanes 0 to this one: a prefix sum
//% endif
//% if many
    int first = 0;   // lane 0's group
    int before = 0;  // tiles of the groups before it
/*% endif %*/

//% if view.masked
    // Rows of a group: 0 behind the last group.
    __device__ __forceinline__ static int rows_of(const int* group_rows, int group)
    {
        return group < GROUPS ? group_rows[group] : 0;
    }

//% else
    // The row where a group ends. Groups behind the last one are empty and end there, too.
    __device__ __forceinline__ static int end_of(const int* offs, int group)
    {
        return group < 0 ? 0 : offs[min(group, GROUPS - 1)];
    }

//% endif
    __device__ __forceinline__ void load(const int* ${ vector }, Shape s)
    {
        const int lane = threadIdx.x % 32, group = ${ "first + lane" if many else "lane" };
//% if view.masked
        rows = rows_of(group_rows, group);
        tiles = tiles_of_rows(rows, s);
//% else
        begin = end_of(offs, group - 1);
        end = end_of(offs, group);
        tiles = tiles_of_rows(end - begin, s);
//% endif
        #pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int below = __shfl_up_sync(0xffffffffu, tiles, distance);
            if (lane >= distance) tiles += below;
        }
    }

    // Loads the first groups; returns the number of tiles of all groups.
    __device__ __forceinline__ int start(const int* ${ vector }, Shape s)
    {
        load(${ vector }, s);
//% if many
        int all = 0;
        for (int i = 0; i < GROUPS; i += 32) {
            const int group = i + static_cast<int>(threadIdx.x) % 32;
            all += tiles_of_rows(${ "rows_of(group_rows, group)" if view.masked else "end_of(offs, group) - end_of(offs, group - 1)" }, s);
        }
        #pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) all += __shfl_xor_sync(0xffffffffu, all, distance);
        return of_lane(all, 0);  // already in all lanes, but now the compiler knows: loops over tiles stay uniform
//% else
        return of_lane(tiles, 31);
//% endif
    }

    // The tile with this number, which exists and is no less than at the last call. The tiles of a group go down GROUP tile rows
    // before the next tile column, so that blocks that run together read the same tiles of A and B from L2.
    __device__ __forceinline__ TileOrigin find(const int* ${ vector }, Shape s, int number${ ", int rank" if view.along == "n" })
    {
//% if many
        number -= before;
        unsigned ends;  // a bit per lane: the tile is in its group or in one before
        while ((ends = __ballot_sync(0xffffffffu, tiles > number)) == 0) {
            const int all = of_lane(tiles, 31);
            number -= all;
            before += all;
            first += 32;
            load(${ vector }, s);
        }
        const int lane = __ffs(ends) - 1;  // the first of these lanes has the tile's group
//% else
        const int lane = __ffs(__ballot_sync(0xffffffffu, tiles > number)) - 1;  // the first lane whose prefix sum exceeds the number has its group
//% endif
//% if view.masked
        const int to = of_lane(rows, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to, s);

        const int tile_rows = (to + BM - 1) / BM, columns = (s.N + ${ width } - 1) / ${ width };
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, tile_rows - above);  // the last of these tile rows may be fewer
//% else
        const int from = of_lane(begin, lane), to = of_lane(end, lane);
        number -= of_lane(tiles, lane) - tiles_of_rows(to - from, s);

        const int rows = (to - from + BM - 1) / BM, columns = (s.N + ${ width } - 1) / ${ width };  // of tiles
        const int above = number / (GROUP * columns) * GROUP;
        const int height = min(GROUP, rows - above);  // the last of these tile rows may be fewer
//% endif
        const int within = number % (GROUP * columns);
//% set before, group = "from + " if not view.masked, "first + lane" if many else "lane"
        return {${ before }(above + within % height) * BM, within / height * ${ to_column }, ${ group }, to};
    }
};

//% endmacro
//% macro count(view)
    Groups groups;
    const int tiles = groups.start(${ vector_of(view) }, s);  // of all groups
//% endmacro
//% macro tile(view)
groups.find(${ vector_of(view) }, s, ${ tile_number(view) }
//%- endmacro
/*# A warp of the producer finds it, and one of its threads goes on. #*/
//% macro leave_idle(roles)
    if (${ roles.idle_warp }) return;  // no __syncthreads follows
    const bool loads = ${ roles.one_of_warp };
//%- endmacro
//% macro one_of_warp()
if (!loads) continue;  // to find the next tile with the other lanes
//% endmacro
/*# A consumer whose rows are none of the group's lets the tile pass; all have columns. #*/
//% macro skip(view)
//% if view.skips
if (tile.m + ${ first_line(view) } >= tile.end) {  // the group has none of this consumer's rows
    #pragma unroll 1
    for (int k = 0; k < s.K; k += BK, ring.advance()) {
        mbarrier_wait(&shared.full[ring.stage], ring.parity);
        named_barrier_sync(1 + consumer, 128);  // all warps have seen this phase: after the release the next may come
        release_stage(shared, ring.stage);
    }
    continue;
}
//% endif
//% endmacro
