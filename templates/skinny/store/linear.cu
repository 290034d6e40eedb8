/*# C = alpha * sums + beta * C. #*/
//% from "epilogue/result.cu" import result
/*# The loop over a thread's elements that exist; `to` is one of C's. #*/
//% macro each_element(kernel)
    #pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int element = i * THREADS + threadIdx.x;
        const int m = tile_m + element / BN, n = tile_n + element % BN;
        if (OUTPUTS * THREADS != BM * BN && element >= BM * BN) break;
//% if kernel.c_edges
        if (${ beyond(kernel.c_edges)[4:] }) continue;
//% endif
        ${ TC }* const to = C + Offset(m) * s.ldc + n;
${ caller() }    }
//% endmacro
//% macro beyond(edges)
//% set ends = {"M": "m >= s.M", "N": "n >= s.N"}
//%- for size in edges
 || ${ ends[size] }
//%- endfor
//%- endmacro
//% macro given(e)
alpha, beta
//%- endmacro
//% macro declare(kernel)
//%- endmacro
//% macro functions(kernel)
// C = alpha * sums + beta * C for this thread's elements that exist: those at THREADS * i + threadIdx.x of the tile.
__device__ __forceinline__ void store_c(${ TC }* C, Shape s, int tile_m, int tile_n, const ${ T } (&sums)[OUTPUTS], ${ types.scalar.ctype } alpha, ${ types.scalar.ctype } beta)
{
//% call each_element(kernel)
        *to = ${ result("sums[i]", "*to") };  // beta = 0 leaves C unread
//% endcall
}
//% endmacro
