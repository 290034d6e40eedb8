/*# Likewise for elements that are narrower than the sums. #*/
//% from "device/packed.cu" import access
//% from "skinny/edge/end.cu" import end_parameter
//% from "skinny/lines.cu" import address_of, element_of_chunk
//% import "skinny/small/staged.cu" as staged
//% set chunk, choose, declare_chunk, free_chunk = staged.chunk, staged.choose, staged.declare_chunk, staged.free_chunk
/*# Neighbouring threads read along the operand's lines; across lines of the weights they write neighbouring values instead. By whether
    lines run along k, of the small operand and of the weights. #*/
//% set where = staged.where
//% set along = "line = i * XW / BK, depth = i * XW % BK"
//% set across = "line = i * XW % S, depth = i * XW / S"
//% set place = {true: {true: along, false: "line = i % S, depth = i / S * XW"}, false: {true: across, false: across}}
//% macro stage(x, w, view)
//% import view.guard as edge
// ${ x.X }'s values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ end_parameter(view) }, Chunk& chunk)
{
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK / XW; i += THREADS) {
        const int ${ place[x.along_k][w.along_k] };
//% filter indent(8, true)
${ edge.guard(x, view, "line") }const Offset at = ${ address_of(x, "line") };
const ${ access(x, "XW") } values = ${ edge.load("load_packed", x.X ~ " + at") };
${ caller() | trim("\n") }
//% endfilter
    }
}
//% endmacro
//% macro small(x, w, view)
//% call stage(x, w, view)
#pragma unroll
for (int j = 0; j < XW; ++j) chunk${ element_of_chunk(x, w, "j") } = values[j];
//% endcall
//% endmacro
