/*# A stage of the ring: how a warpgroup multiplies what is there. #*/
//% from "wgmma/layout.cu" import descriptor
//% from "wgmma/range.cu" import sums_of_mma
/*# For lines of a tile that no copy brings. #*/
//% macro clear()
template <class T, int N>
__device__ __forceinline__ void clear(T (&tile)[N])
{
    constexpr int CHUNK = 16 / sizeof(T);
    for (int i = threadIdx.x * CHUNK; i < N; i += THREADS * CHUNK) store<CHUNK>(&tile[i], Vec<${ "" if types.uniform else "T, " }CHUNK>{});
}
//% endmacro
/*# `adds`: whether an instruction adds to sums, as its last argument; it does unless told. #*/
//% macro multiply_stage(view, parameter="", adds="")
//% import view.each as mmas
//% import view.product as product
//% import view.tiles as tiles
// Sums the products of a stage's k tiles, for this warpgroup's ${ product.lines } of C: in flight until wgmma_wait.
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, ${ tiles.first_parameter }${ parameter }Accumulators& acc)
{
    const unsigned long long a = ${ descriptor(view.first, divided=not view.pingpong) };
    const unsigned long long b = ${ descriptor(view.second) };
    #pragma unroll
${ mmas.multiply(view, adds) | indent(4, true) | trim("\n") }
}

//% endmacro
//% macro promote(view)
//% import view.each as mmas
// Add sums of one k tile or some to totals, in f32 with rounding: tensor cores keep fewer bits.
__device__ __forceinline__ void promote(const Accumulators& acc, Accumulators& totals)
{
//% filter indent(4, true)
//% call mmas.each_mma(view)
#pragma unroll
for (int r = 0; r < ${ sums_of_mma(view) }; ++r) totals${ mmas.of }[r] += acc${ mmas.of }[r];
//% endcall
//% endfilter
}
//% endmacro
