/*# How the threads of a block share the accesses that bring a tile into shared memory. #*/
//% macro access(x)
//% set line, along = ("mn", "k") if x.along_k else ("k", "mn")
// Where this thread's first access to ${ x.X }'s tile starts: ${ x.X }_TEAM neighbouring threads fetch a line together, along ${ x.mn if along == "mn" else "k" }.
__device__ __forceinline__ Spot spot_${ x.x }()
{
    const int line = threadIdx.x / ${ x.X }_TEAM, along = threadIdx.x % ${ x.X }_TEAM * V${ x.X };
    return {${ "line, along" if x.along_k else "along, line" }};
}

// From there to its i-th: further along the line first, then ${ x.X }_STRIDE lines on. The same for all threads.
__device__ __forceinline__ Spot step_${ x.x }(int i)
{
    constexpr int TIMES = ${ x.X }_LINE / V${ x.X } / ${ x.X }_TEAM;  // accesses of a thread to a line
    const int line = i / TIMES * ${ x.X }_STRIDE, along = i % TIMES * ${ x.X }_TEAM * V${ x.X };
    return {${ "line, along" if x.along_k else "along, line" }};
}

// ${ T | capitalize }s from the origin of ${ x.X }'s tile to `at`, in global memory.
__device__ __forceinline__ Offset offset_${ x.x }(Spot at, Shape s)
{
    return Offset(at.${ line }) * s.${ x.ld } + at.${ along };
}
/*% if x.at_edge %*/

// How many ${ T }s from there on lie inside ${ x.X }, whose edge is ${ x.extent if x.mn_edge }${ " x " if x.mn_edge and x.k_edge }${ "depth" if x.k_edge } from the tile's origin:
// V${ x.X } or more where the whole access does, 0 or less where nothing of it does.
__device__ __forceinline__ int valid_${ x.x }(Spot at${ limits(x, "int ") })
{
//% if x.along_k
//% if x.mn_edge
    if (at.mn >= ${ x.extent }) return 0;
//% endif
    return ${ "depth - at.k" if x.k_edge else "V" ~ x.X };
//% else
//% if x.k_edge
    if (at.k >= depth) return 0;
//% endif
    return ${ x.extent ~ " - at.mn" if x.mn_edge else "V" ~ x.X };
//% endif
}
//% endif
//% endmacro

/*# What says how much of a tile of x exists, as further arguments, or as parameters of that `type`. #*/
//% macro limits(x, type="", depth="depth")
${ ", " ~ type ~ x.extent if x.mn_edge }${ ", " ~ type ~ depth if x.k_edge }
//%- endmacro

/*# A loop over this thread's accesses; `before` stands ahead of it. #*/
//% macro for_each_access(x, before="")
    const Spot first = spot_${ x.x }();
${ before }    #pragma unroll
    for (int i = 0; i < ${ x.X }_SHARE; ++i) {
        const Spot step = step_${ x.x }(i), at = {first.mn + step.mn, first.k + step.k};
        if (${ x.X }_LINES % ${ x.X }_STRIDE != 0 && at.${ "mn" if x.along_k else "k" } >= ${ x.X }_LINES) break;
${ caller() }    }
//% endmacro

/*# The address that all accesses of a thread share, from which they lie at fixed distances. #*/
//% macro from(x)
    const ${ T }* from = tile + offset_${ x.x }(first, s);
//% endmacro

/*# The element of the shared tile that lies `i` elements along the line from `at`. #*/
//% macro shared_element(x, i="")
//% set k = "at.k" ~ i if x.along_k else "at.k"
//% set mn = "at.mn" if x.along_k else "at.mn" ~ i
shared[${ k if x.k_rows else mn }][${ mn if x.k_rows else k }]
//%- endmacro
