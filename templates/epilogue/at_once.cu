/*# registers -> shared, all of a thread's elements of a piece of which TMA stores what lies in C. All are computed before the first
    is stored, as loads of the old ones would stay behind the stores before them. #*/
//% from "epilogue/extent.cu" import counts
//% from "epilogue/result.cu" import element_of_c
//% from "epilogue/sums.cu" import sum_parameters
//% from "epilogue/tree.cu" import at_last, epilogue, new_elements, further_sums, stored, sums_of, told, vector_sums, vectors_of_sums
//% import "epilogue/tree.cu" as tree
//% set arguments, declare = tree.arguments, tree.declare
//% macro store_c(kernel, staged, edges, whole)
//% set e, stores = kernel.problem.epilogue, kernel.epilogue.stores
${ epilogue(kernel) }

// N new elements of C.
template <int N>
__device__ __forceinline__ Vec<${ of.C }N> results(${ "const %s* from, " | format(TC) if e.reads_c }const Epilogue& e${ told(stores) }, Vec<${ of.sums }N> value${ vector_sums(e) })
{
${ new_elements(kernel, "from") | indent(4, true) | trim("\n") }
    return ${ stored[types.uniform] };
}

// This thread's elements of a piece. All are computed before the first is stored, so that no load waits for a store.
__device__ __forceinline__ void store_c(${ TC }* tile, Shape s${ counts(edges) }, ThreadOrigin thread,
                                        const ${ T } (&sums)[TM][TN]${ further_sums(e) }${ sum_parameters(kernel, "const ") }, const Epilogue& e)
{
    Vec<${ of.C }VC> stored[TM][TN / VC];
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
//% if e.reads_c or "m" in stores.names
        const int m = thread.m + i / FM * STEP_M + i % FM;
//% endif
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
//% if e.reads_c or "n" in stores.names
            const int n = thread.n + j / FN * STEP_N + j % FN;
//% endif
${ vectors_of_sums(e, "[i]") | indent(12, true) | trim("\n") }
            stored[i][j / VC] = results<VC>(${ element_of_c(true) ~ ", " if e.reads_c }e${ at_last(stores, edges) }, value${ sums_of(e, row="s[i]") });
        }
    }
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = thread.m + i / FM * STEP_M + i % FM;
        #pragma unroll
        for (int j = 0; j < TN; j += VC) {
            const int n = thread.n + j / FN * STEP_N + j % FN;
            store<VC>(${ element_of_c(true) }, stored[i][j / VC]);
        }
    }
}
//% endmacro
