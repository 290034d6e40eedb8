/*# One thread an element of C, every operand read from global memory. #*/
//% from "header.cu" import header
//% from "constants.cu" import shape, tiling
//% from "signature.cu" import signature
//% from "device/convert.cu" import add_to, element_types
//% from "epilogue/result.cu" import result, narrowed
//% from "tile_row_by_row.cu" import row_by_row
//% from "naive/operands.cu" import codes, find_group, find_row, find_range, find_tap, read_a, read_b, row_c, rows, sum_blocks, sum_groups
//% from "epilogue/tree.cu" import epilogue, applied_at, declare_outputs, inputs, store_outputs
${ header(kernel) }
namespace {

${ element_types(reads_c=kernel.problem.epilogue.reads_c, rounds="" if kernel.problem.inputs.group is none or kernel.problem.scaled_depth else types.a.label) }${ shape(kernel) }
${ codes(kernel) }${ tiling(kernel) }
//% if kernel.epilogue
${ epilogue(kernel) }
//% endif
}  // namespace

${ signature(kernel) }{
    const Shape s{${ kernel.problem.runtime_names | join(", ") }};
//% set along_k = kernel.problem.inputs.along_k
//% if kernel.drops_alpha and not along_k
    if (s.K == 0) alpha = ${ types.scalar.arithmetic.zero };  // nothing to scale, be alpha infinite or NaN
//% endif
${ row_by_row(kernel) }    const int m = tile_m * BM + threadIdx.x / BN;
    const int n = tile_n * BN + threadIdx.x % BN;  // neighbouring threads read neighbouring columns of B
    if (m >= ${ rows(kernel) } || n >= s.N) return;
${ find_group(kernel) }${ find_row(kernel) }${ find_tap(kernel) }${ find_range(kernel) }
    ${ T } acc = ${ zero }
//%- for name in kernel.problem.epilogue.beside
, ${ name } = ${ zero }
//%- endfor
;
//% if kernel.problem.scaled_depth
${ sum_blocks(kernel) if kernel.problem.inputs.blocks else sum_groups(kernel) }
//%- else
    for (int k = ${ "begin" if along_k else 0 }; k < ${ "end" if along_k else "s.K" }; ++k) {
${ read_a(kernel) }
//%- for acc in kernel.problem.epilogue.accumulators
${ read_b(kernel, loop.index) }        ${ acc } = ${ fma }(a, b${ loop.index if loop.index > 1 }, ${ acc });
//% endfor
//% for name in kernel.problem.epilogue.sums
        ${ add_to(name, "a" if name == "row_sum" else "b") }
//% endfor
    }
//% endif
    ${ TC }* const to = C + Offset(${ row_c(kernel) }) * s.ldc + n;
//% if kernel.epilogue
    const Epilogue e = ${ inputs(kernel) };
//% if kernel.outputs
${ declare_outputs(kernel.problem.epilogue) | indent(4, true) | trim("\n") }
//% endif
    *to = ${ narrowed(applied_at(kernel, "m", "n", "acc", "*to")) };
//% if kernel.outputs
${ store_outputs(kernel.problem.epilogue, "m", "n") | indent(4, true) | trim("\n") }
//% endif
//% else
    *to = ${ result("acc", "*to") };  // beta = 0 leaves C unread
//% endif
}
