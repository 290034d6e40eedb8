/*# registers -> global: C = alpha * acc + beta * C. #*/
//% macro store_c(moves_m=false, moves_n=false, sliced=false)
// The first `valid` of N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
template <int N>
__device__ __forceinline__ void store_edge(${ T }* to, Vec<N> value, ${ T } beta, int valid)
{
    if (valid >= N) {
        if (beta != ${ zero }) {
            const Vec<N> old = load<N>(to);
            #pragma unroll
            for (int i = 0; i < N; ++i) value.at[i] = ${ fma }(beta, old.at[i], value.at[i]);
        }
        store<N>(to, value);
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = beta == ${ zero } ? value.at[i] : ${ fma }(beta, to[i], value.at[i]);
    }
}

// C = alpha * ${ "sums" if sliced else "acc" } + beta * C for those of this thread's elements that ${ "the tile has to itself" if moves_m or moves_n else "exist" }.
//% set sums = "sums" if sliced else "acc"
//% set rows, columns = "above" if moves_m else "rows", "left" if moves_n else "columns"
//% if moves_m or moves_n
// ${ "Those in the rows above" ~ ("" if not moves_n else " or the columns left of it") if moves_m else "Those in the columns left" } belong to another one, which this one overlaps.
//% endif
__device__ __forceinline__ void store_c(${ T }* tile, Shape s, int ${ rows }, int ${ columns }, Place place,
                                        const ${ T } (&${ sums })[${ "ROWS" if sliced else "TM" }][TN], ${ T } alpha, ${ T } beta)
{
    #pragma unroll
    for (int i = 0; i < ${ "ROWS" if sliced else "TM" }; ++i) {
//% if sliced
        const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the tile that slices share
        const int m = place.m + row / FM * STEP_M + row % FM;
//% else
        const int m = place.m + i / FM * STEP_M + i % FM;
//% endif
        if (${ "m < above" if moves_m else "EDGE_M && m >= rows" }) continue;
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
            const int n = place.n + j / FN * STEP_N + j % FN;
            Vec<VC> value;
            #pragma unroll
            for (int v = 0; v < VC; ++v) value.at[v] = alpha * ${ sums }[i][j + v];
            store_edge<VC>(tile + Offset(m) * s.ldc + n, value, beta, ${ "n < left ? 0" if moves_n else "EDGE_N ? columns - n" } : VC);
        }
    }
}
//% endmacro
