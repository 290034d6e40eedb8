/*# The small operand without shared memory: each thread reads the values that its own weights are multiplied by, with no barrier. #*/
//% from "skinny/edge/end.cu" import end_parameter
//% from "skinny/lines.cu" import address_of, element_of_chunk
/*# A chunk lies in registers, not in shared memory. #*/
//% macro chunk(registers, shared)
${ registers }
//%- endmacro
//% macro choose(registers, shared)
${ registers }
//%- endmacro
//% macro declare_chunk(rest)
//%- endmacro
//% macro free_chunk()
//%- endmacro
/*# The loops over a thread's part of a chunk, by whether lines run along k: an access goes along a line. #*/
//% set line_step, depth_step = {true: "++line", false: "line += XW"}, {true: "depth += XW", false: "++depth"}
//% set aligned, where = "__align__(16) ", "in registers"
//% macro fetch_small(x, view)
//% import view.guard as edge
// Start the loads of what one step's weights are multiplied by: ${ x.X }'s S values at each of this thread's k from `k` on, or zeros
// beyond its edges.
__device__ __forceinline__ void fetch_small(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ end_parameter(view) }, Chunk& chunk)
{
    #pragma unroll
    for (int line = 0; line < S; ${ line_step[x.along_k] }) {
        #pragma unroll
        for (int depth = 0; depth < LANE_K; ${ depth_step[x.along_k] }) {
//% filter indent(12, true)
${ edge.guard(x, view, "line") }${ caller() | trim("\n") }
//% endfilter
        }
    }
}
//% endmacro
//% macro small(x, w, view)
//% import view.guard as edge
//% call fetch_small(x, view)
const Vec<XW> x = ${ edge.load("load", x.X ~ " + " ~ address_of(x, "line")) };
#pragma unroll
for (int i = 0; i < XW; ++i) chunk${ element_of_chunk(x, w, "i") } = x.at[i];
//% endcall
//% endmacro
