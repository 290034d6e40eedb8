/*# Which accesses of a tile's copy to shared memory each thread makes. The contiguous dimension is that of global memory. #*/
//% from "layout.cu" import at
//% macro access(x)
//% set strided, contiguous, coord = ("mn", "k", "strided, contiguous") if x.along_k else ("k", "mn", "contiguous, strided")
//% set lines_end, end = (x.extent, "depth") if x.along_k else ("depth", x.extent)
//% set lines_edge, edge = (x.mn_edge, x.k_edge) if x.along_k else (x.k_edge, x.mn_edge)
// This thread's first access to ${ x.X }'s tile: ${ x.X }_LANES neighbouring threads copy along its contiguous dimension.
__device__ __forceinline__ Coord access_origin_${ x.x }()
{
    const int strided = threadIdx.x / ${ x.X }_LANES, contiguous = threadIdx.x % ${ x.X }_LANES * V${ x.X };
    return {${ coord }};
}

// From there to its i-th access: along the contiguous dimension first. The same for all threads.
__device__ __forceinline__ Coord access_offset_${ x.x }(int i)
{
    constexpr int TIMES = ${ x.X }_CONTIGUOUS / V${ x.X } / ${ x.X }_LANES;  // accesses along the contiguous dimension
    const int strided = i / TIMES * ${ x.X }_PASS, contiguous = i % TIMES * ${ x.X }_LANES * V${ x.X };
    return {${ coord }};
}

// Elements from the origin of ${ x.X }'s tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_${ x.x }(Coord at, Shape s)
{
    return Offset(at.${ strided }) * s.${ x.ld } + at.${ contiguous };
}
/*% if x.at_edge %*/

// How many elements from there on lie inside ${ x.X }, whose edges count from the tile's origin:
// V${ x.X } or more where the whole access does, 0 or less where nothing of it does.
__device__ __forceinline__ int valid_${ x.x }(Coord at${ limits(x, "int ") })
{
//% if lines_edge
    if (at.${ strided } >= ${ lines_end }) return 0;
//% endif
    return ${ "%s - at.%s" | format(end, contiguous) if edge else "V" ~ x.X };
}
//% endif
//% endmacro

/*# What says how much of a tile of x exists, as further arguments, or as parameters of that `type`. #*/
//% macro limits(x, type="", depth="depth")
${ ", " ~ type ~ x.extent if x.mn_edge }${ ", " ~ type ~ depth if x.k_edge }
//%- endmacro

/*# A loop over this thread's accesses; `before` stands above it. #*/
//% macro for_each_access(x, before="")
    const Coord first = access_origin_${ x.x }();
${ before }    #pragma unroll
    for (int i = 0; i < ${ x.X }_ITERATIONS; ++i) {
        const Coord step = access_offset_${ x.x }(i), at = {first.mn + step.mn, first.k + step.k};
        if (${ x.X }_STRIDED % ${ x.X }_PASS != 0 && at.${ "mn" if x.along_k else "k" } >= ${ x.X }_STRIDED) break;
${ caller() }    }
//% endmacro

/*# The address that all accesses of a thread share, from which they lie at fixed distances. #*/
//% macro from(x)
    const ${ element[x.X] }* from = tile + offset_${ x.x }(first, s);
//% endmacro

/*# The element of the shared tile that lies `i` elements along the contiguous dimension from `at`. #*/
//% macro shared_element(x, i="")
//% set mn, k = ("at.mn", "at.k" ~ i) if x.along_k else ("at.mn" ~ i, "at.k")
shared${ at(not x.k_rows, mn, k) }
//%- endmacro
