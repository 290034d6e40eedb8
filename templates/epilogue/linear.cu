/*# registers -> global: C = alpha * sums + beta * C, row by row of a thread's. `edges`: of M and N those at which stores end,
    unless where it stores to a tile has room beyond. #*/
//% from "epilogue/extent.cu" import column_ends, counted, counts, row_ends, row_of_thread, rows_of_thread
//% from "epilogue/result.cu" import element_of_c, narrowed, scaled
/*# What a store is given of the epilogue. #*/
//% set arguments = "alpha, beta"
//% macro declare(kernel, m, n, product)
//%- endmacro
//% macro store_c(kernel, moves_m=false, moves_n=false, sliced=false, shared=false, staged=false, edges=none, whole=false)
//% set edges = kernel.c_edges if edges is none else edges
//% set row_end, column_end = row_ends[moves_m], column_ends[moves_n]
//% set names = {"M": row_end.count, "N": column_end.count}
//% set S, rows = types.scalar.ctype, rows_of_thread[sliced]
//% if "N" in edges
// The first `valid` of N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_edge(${ TC }* to, Vec<${ of.scalar }N> value, ${ S } beta, int valid)
{
    if (valid >= N) {
${ store_vector() | indent(8, true) | trim("\n") }
        return;
    }
    #pragma unroll
    for (int i = 0; i < N - 1; ++i) {
        if (i < valid) to[i] = ${ narrowed("beta == %s ? value.at[i] : %s(beta, to[i], value.at[i])" % (types.scalar.arithmetic.zero, types.scalar.arithmetic.fma)) };
    }
}

//% else
// N results to C. beta = 0 overwrites C unread: it may be uninitialised.
template <int N>
__device__ __forceinline__ void store_results(${ TC }* to, Vec<${ of.scalar }N> value, ${ S } beta)
{
${ store_vector() | indent(4, true) | trim("\n") }
}

//% endif
// C = alpha * sums + beta * C in the i-th of this thread's rows, for those elements that are the tile's own.
__device__ __forceinline__ void store_row(${ TC }* tile, Shape s${ counts(edges, names) }, ThreadOrigin thread, int i,
                                          const ${ T } (&sums)[TN], ${ S } alpha, ${ S } beta)
{
${ row_of_thread(sliced) | indent(4, true) | trim("\n") }
//% if "M" in edges
    if (${ row_end.beyond }) return;  // ${ row_end.because }
//% endif
    #pragma unroll
    for (int j = 0; j < TN; j += VC) {
        const int n = thread.n + j / FN * STEP_N + j % FN;
        Vec<${ of.scalar }VC> value;
        #pragma unroll
        for (int v = 0; v < VC; ++v) value.at[v] = ${ scaled("sums[j + v]") };
//% if "N" in edges
        store_edge<VC>(${ element_of_c(staged) }, value, beta, ${ column_end.valid });
//% else
        store_results<VC>(${ element_of_c(staged) }, value, beta);
//% endif
    }
}
/*% if not shared %*/

// The same for all of this thread's rows.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ counts(edges, names) }, ThreadOrigin thread,
                                        const ${ T } (&sums)[${ rows }][TN], ${ S } alpha, ${ S } beta)
{
    #pragma unroll
    for (int i = 0; i < ${ rows }; ++i) store_row(tile, s${ counted(edges, names) }, thread, i, sums[i], alpha, beta);
}
/*% endif %*/
//% endmacro
/*# N results, and beta of what is there, to `to`. #*/
//% macro store_vector()
if (beta != ${ types.scalar.arithmetic.zero }) {
    const Vec<${ of.C }N> old = load<N>(to);
    #pragma unroll
    for (int i = 0; i < N; ++i) value.at[i] = ${ types.scalar.arithmetic.fma }(beta, old.at[i], value.at[i]);
}
//% if types.uniform
store<N>(to, value);
//% else
Vec<${ of.C }N> stored;
#pragma unroll
for (int i = 0; i < N; ++i) stored.at[i] = ${ narrowed("value.at[i]") };
store<N>(to, stored);
//% endif
//% endmacro
