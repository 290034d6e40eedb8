/*# The small operand passes through shared memory: all threads of a block copy a chunk of it. #*/
//% from "skinny/edge/end.cu" import end_parameter
//% from "skinny/lines.cu" import address_of, single
//% macro chunk(registers, shared)
${ shared }
//%- endmacro
//% macro choose(registers, shared)
${ shared }
//%- endmacro
//% macro declare_chunk(rest)
    Chunk& chunk = *reinterpret_cast<Chunk*>(${ rest });
//% endmacro
//% macro free_chunk()
    __syncthreads();  // no thread reads the last chunk any more
//% endmacro
//% set where = "in shared memory"
/*# Neighbouring threads read along the operand's lines. #*/
//% set place = {true: "line = i / BK, depth = i % BK", false: "line = i % S, depth = i / S"}
//% macro small(x, w, view)
//% import view.guard as edge
// ${ x.X }'s values at k to k + BK - 1, or zeros beyond its edges, to shared memory.
__device__ __forceinline__ void stage(const ${ element[x.X] }* ${ x.X }, Shape s, int ${ x.mn }, int k${ end_parameter(view) }, Chunk& chunk)
{
    #pragma unroll ${ view.stage_unroll }
    for (int i = threadIdx.x; i < S * BK; i += THREADS) {  // neighbouring threads read along ${ x.X }'s lines
        const int ${ place[x.along_k] };
//% filter indent(8, true)
${ edge.exists(x, view, "line") }const Offset at = ${ address_of(x, "line") };
chunk${ single[w.along_k] } = ${ edge.element(x) };
//% endfilter
    }
}
//% endmacro
