/*# How the threads of a block share the accesses that bring a tile into shared memory. #*/
//% macro access(x)
// Where an access to ${ x.X }'s tile starts. Neighbouring threads read neighbouring addresses: along ${ "k" if x.along_k else x.mn }.
__device__ __forceinline__ Spot spot_${ x.x }(int access)
{
//% if x.along_k
    return {access / (BK / V${ x.X }), access % (BK / V${ x.X }) * V${ x.X }};
//% else
    return {access % (B${ x.MN } / V${ x.X }) * V${ x.X }, access / (B${ x.MN } / V${ x.X })};
//% endif
}

// How many ${ T }s from there on lie inside ${ x.X }, whose edge is ${ x.extent } x depth from the tile's origin:
// V${ x.X } or more where the whole access does, 0 or less where nothing of it does.
__device__ __forceinline__ int valid_${ x.x }(Spot at, int ${ x.extent }, int depth)
{
//% if x.along_k
    if (EDGE_${ x.MN } && at.mn >= ${ x.extent }) return 0;
    return EDGE_K ? depth - at.k : V${ x.X };
//% else
    if (EDGE_K && at.k >= depth) return 0;
    return EDGE_${ x.MN } ? ${ x.extent } - at.mn : V${ x.X };
//% endif
}
//% endmacro

/*# A loop over this thread's accesses. #*/
//% macro for_each_access(x)
    #pragma unroll
    for (int i = 0; i < ${ x.X }_SHARE; ++i) {
        const int access = threadIdx.x + i * THREADS;
        if (${ x.X }_ACCESSES % THREADS != 0 && access >= ${ x.X }_ACCESSES) break;
        const Spot at = spot_${ x.x }(access);
${ caller() }    }
//% endmacro

/*# The address of `at` in global memory. #*/
//% macro address(x)
tile + Offset(at.${ "mn" if x.along_k else "k" }) * s.ld${ x.x } + at.${ "k" if x.along_k else "mn" }
//%- endmacro

/*# The element of the shared tile that lies `i` elements along the line from `at`. #*/
//% macro shared_element(x, i="")
//% set k = "at.k" ~ i if x.along_k else "at.k"
//% set mn = "at.mn" if x.along_k else "at.mn" ~ i
shared[${ k if x.k_rows else mn }][${ mn if x.k_rows else k }]
//%- endmacro
