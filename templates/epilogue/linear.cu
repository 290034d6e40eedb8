/*# registers -> global: C = alpha * sums + beta * C, row by row of a thread's. `edges`: of M and N those at which stores end,
    unless where it stores to a tile has room beyond. #*/
//% from "epilogue/result.cu" import element_of_c, narrowed, scaled
//% macro store_c(kernel, moves_m=false, moves_n=false, sliced=false, shared=false, staged=false, edges=none, whole=false)
//% set edges = kernel.edges if edges is none else edges
//% set m_edge, n_edge = "M" in edges, "N" in edges
//% set S, nothing, add = types.scalar.ctype, types.scalar.arithmetic.zero, types.scalar.arithmetic.fma
//% if n_edge
// The first `valid` of N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_edge(${ TC }* to, Vec<${ of.scalar }N> value, ${ S } beta, int valid)
{
    if (valid >= N) {
        if (beta != ${ nothing }) {
            const Vec<${ of.C }N> old = load<N>(to);
            #pragma unroll
            for (int i = 0; i < N; ++i) value.at[i] = ${ add }(beta, old.at[i], value.at[i]);
        }
//% if types.uniform
        store<N>(to, value);
//% else
        Vec<${ of.C }N> stored;
        #pragma unroll
        for (int i = 0; i < N; ++i) stored.at[i] = ${ narrowed("value.at[i]") };
        store<N>(to, stored);
//% endif
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = ${ narrowed("beta == %s ? value.at[i] : %s(beta, to[i], value.at[i])" % (nothing, add)) };
    }
}

//% else
// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(${ TC }* to, Vec<${ of.scalar }N> value, ${ S } beta)
{
    if (beta != ${ nothing }) {
        const Vec<${ of.C }N> old = load<N>(to);
        #pragma unroll
        for (int i = 0; i < N; ++i) value.at[i] = ${ add }(beta, old.at[i], value.at[i]);
    }
//% if types.uniform
    store<N>(to, value);
//% else
    Vec<${ of.C }N> stored;
    #pragma unroll
    for (int i = 0; i < N; ++i) stored.at[i] = ${ narrowed("value.at[i]") };
    store<N>(to, stored);
//% endif
}

//% endif
// C = alpha * sums + beta * C in the i-th of this thread's ${ "ROWS" if sliced else "TM" } rows${ extent(m_edge, n_edge, moves_m, moves_n) }.
//% set rows, columns = "skip_rows" if moves_m else "rows", "skip_columns" if moves_n else "columns"
//% set parameters = (", int " ~ rows if m_edge) ~ (", int " ~ columns if n_edge)
//% if moves_m or moves_n
// The first ${ "`skip_rows` rows" if moves_m }${ " and " if moves_m and moves_n }${ "`skip_columns` columns" if moves_n } of a tile that moved back are another tile's, which stores them.
//% endif
__device__ __forceinline__ void store_row(${ TC }* tile, Shape s${ parameters }, ThreadOrigin thread, int i,
                                          const ${ T } (&sums)[TN], ${ S } alpha, ${ S } beta)
{
//% if sliced
    const int row = static_cast<int>(threadIdx.x) / SLICE_THREADS * ROWS + i;  // of the thread tile
    const int m = thread.m + row / FM * STEP_M + row % FM;
//% else
    const int m = thread.m + i / FM * STEP_M + i % FM;
//% endif
//% if m_edge
    if (${ "m < skip_rows" if moves_m else "m >= rows" }) return;
//% endif
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<${ of.scalar }VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = ${ scaled("sums[j + v]") };
//% if n_edge
        store_edge<VC>(${ element_of_c(staged) }, value, beta, ${ "n < skip_columns ? 0 : VC" if moves_n else "columns - n" });
//% else
        store_results<VC>(${ element_of_c(staged) }, value, beta);
//% endif
    }
}
/*% if not shared %*/

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ parameters }, ThreadOrigin thread,
                                        const ${ T } (&sums)[${ "ROWS" if sliced else "TM" }][TN], ${ S } alpha, ${ S } beta)
{
    #pragma unroll
    for (int i = 0; i < ${ "ROWS" if sliced else "TM" }; ++i) store_row(tile, s${ ", " ~ rows if m_edge }${ ", " ~ columns if n_edge }, thread, i, sums[i], alpha, beta);
}
//% endif
//% endmacro

/*# Which of a thread's elements a store means, where not all. #*/
//% macro extent(m_edge, n_edge, moves_m, moves_n)
//% set exist, own = (m_edge and not moves_m) or (n_edge and not moves_n), moves_m or moves_n
${ ", for those elements that " if exist or own }${ "exist" if exist }${ " and " if exist and own }${ "are the tile's own" if own }
//%- endmacro
