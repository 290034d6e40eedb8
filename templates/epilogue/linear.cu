/*# registers -> global: C = alpha * sums + beta * C, row by row of a thread's. #*/
//% macro store_c(kernel, moves_m=false, moves_n=false, sliced=false, shared=false)
//% set m_edge, n_edge = "M" in kernel.edges, "N" in kernel.edges
//% if n_edge
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

//% else
// N results to C. beta = 0 overwrites C unread: what stood there may be NaN.
template <int N>
__device__ __forceinline__ void store_results(${ T }* to, Vec<N> value, ${ T } beta)
{
    if (beta != ${ zero }) {
        const Vec<N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = ${ fma }(beta, old.at[i], value.at[i]);
    }
    store<N>(to, value);
}

//% endif
// C = alpha * sums + beta * C in the i-th of this thread's ${ "ROWS" if sliced else "TM" } rows${ extent(m_edge, n_edge, moves_m, moves_n) }.
//% set rows, columns = "above" if moves_m else "rows", "left" if moves_n else "columns"
//% set parameters = (", int " ~ rows if m_edge) ~ (", int " ~ columns if n_edge)
//% if moves_m or moves_n
// The first ${ "`above` rows" if moves_m }${ " and " if moves_m and moves_n }${ "`left` columns" if moves_n } of a tile that moved back are another tile's, which stores them.
//% endif
__device__ __forceinline__ void store_row(${ T }* tile, Shape s${ parameters }, Place place, int i,
                                          const ${ T } (&sums)[TN], ${ T } alpha, ${ T } beta)
{
//% if sliced
    const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the tile that slices share
    const int m = place.m + row / FM * STEP_M + row % FM;
//% else
    const int m = place.m + i / FM * STEP_M + i % FM;
//% endif
//% if m_edge
    if (${ "m < above" if moves_m else "m >= rows" }) return;
//% endif
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = place.n + j / FN * STEP_N + j % FN;
        Vec<VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = alpha * sums[j + v];
//% if n_edge
        store_edge<VC>(tile + Offset(m) * s.ldc + n, value, beta, ${ "n < left ? 0 : VC" if moves_n else "columns - n" });
//% else
        store_results<VC>(tile + Offset(m) * s.ldc + n, value, beta);
//% endif
    }
}
/*% if not shared %*/

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(${ T }* tile, Shape s${ parameters }, Place place,
                                        const ${ T } (&sums)[${ "ROWS" if sliced else "TM" }][TN], ${ T } alpha, ${ T } beta)
{
    #pragma unroll
    for (int i = 0; i < ${ "ROWS" if sliced else "TM" }; ++i) store_row(tile, s${ ", " ~ rows if m_edge }${ ", " ~ columns if n_edge }, place, i, sums[i], alpha, beta);
}
//% endif
//% endmacro

/*# Which of a thread's elements a store means, where not all. #*/
//% macro extent(m_edge, n_edge, moves_m, moves_n)
//% set exist, own = (m_edge and not moves_m) or (n_edge and not moves_n), moves_m or moves_n
${ ", for those elements that " if exist or own }${ "exist" if exist }${ " and " if exist and own }${ "are the tile's own" if own }
//%- endmacro
